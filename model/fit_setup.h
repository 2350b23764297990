// What a run of fit is made of, from its options.
#pragma once

#include "qtape/model/distillation.h"
#include "qtape/model/feed.h"
#include "qtape/model/fit.h"

namespace qtape {

/// Throws ArgumentError for counts and norms that cannot be.
void check_counts(const FitOptions& options);

/// What is trained: the model's graph for batches of the options, with a teacher where there is
/// one. Throws GraphError for a model without a loss, ArgumentError for data of more classes
/// than the model has.
DistilledGraph training_graph(const Model& model, const data::Dataset& dataset,
                              const FitOptions& options);

/// The inputs of `tape` that data fill: all but `other`, where there is one.
std::vector<FedInput> inputs_but(Tape& tape, NodeId other);

/// Whether the options, or else the data, ask for a thread that reads ahead.
bool prefetches(const data::Dataset& dataset, const FitOptions& options);

/// The arithmetic of the options, or what pays for the bits of `graph`.
Arithmetic arithmetic_for(const Graph& graph, const FitOptions& options);

}  // namespace qtape
