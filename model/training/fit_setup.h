// Preparation of a run of fit from its options.
#pragma once

#include "qtape/model/feed.h"
#include "qtape/model/fit.h"
#include "qtape/model/training/distillation.h"

namespace qtape {

/// Throws ArgumentError for invalid counts and norms.
void check_counts(const FitOptions& options);

/// Returns the graph to train: the model's graph with the batch size of the options, extended
/// by distillation if there is a teacher. Throws GraphError for a model without a loss,
/// ArgumentError for data with more classes than the model.
DistilledGraph training_graph(const Model& model, const data::Dataset& dataset,
                              const FitOptions& options);

/// Returns the inputs of `tape` that data fill: all except `other`, if it is valid.
std::vector<FedInput> inputs_but(Tape& tape, NodeId other);

/// True if a thread should read ahead, by the options or else by the data.
bool prefetches(const data::Dataset& dataset, const FitOptions& options);

/// Returns the arithmetic of the options, or else the fastest one for the bits of `graph`.
Arithmetic arithmetic_for(const Graph& graph, const FitOptions& options);

}  // namespace qtape
