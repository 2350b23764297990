// Preparation of a run of fit from its options.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qtape/model/feed.h"
#include "qtape/model/fit.h"
#include "qtape/model/ranks.h"
#include "qtape/model/training/distillation.h"

namespace qtape {

/// Throws ArgumentError for options out of range or without effect.
void check_options(const FitOptions& options);
/// Throws ArgumentError if the schedule never lets quantizers observe, and one has no scale
/// yet. Returns warnings of learned scales whose range is smaller than a step of the optimizer,
/// and of weights whose oscillations are not controlled, and prints them unless `progress` is
/// off.
std::vector<std::string> check_scales(const Model& model, const FitOptions& options);

/// Throws Error if a checkpoint of this run cannot be written for want of address space. It
/// needs copies of the moments and of one value, their text and that of all values.
void require_memory_of_checkpoint(const Parameters& parameters, const Optimizer& optimizer,
                                  const std::string& path);

/// Returns the metric for `options.validation`, which are given; empty if they have nothing to
/// compare with, which is printed unless `progress` is off.
std::optional<MetricChoice> choose_validation(const Model& model, const FitOptions& options);

/// Returns the shards of this process, see FitOptions::shards. Throws ArgumentError unless they
/// divide the batch and there is one for each process.
Shards shards_of(const Model& model, const FitOptions& options);

/// Returns the graph to train: the model's graph with `rows` samples, extended by distillation
/// if there is a teacher. Throws GraphError for a model without a loss,
/// ArgumentError for data with more classes than the model.
DistilledGraph training_graph(const Model& model, const data::Dataset& dataset,
                              const FitOptions& options, int64_t rows);

/// Returns settings that change the bits of a run, as texts by name; `quantization` is the
/// schedule that the run uses.
std::map<std::string, std::string> settings_of(const FitOptions& options,
                                               const QuantizationSchedule& quantization);

/// Returns all that must be equal on the processes of a run; `sections` are those of its first
/// checkpoint.
std::vector<RankFact> facts_of(const Model& model, const data::Dataset& dataset,
                               const FitOptions& options,
                               const std::map<std::string, Section>& sections);
/// The same for the progress of a run, when it continues and after each epoch.
std::vector<RankFact> progress_facts(const Model& model, int64_t step,
                                     const std::optional<double>& score);

/// Returns the model in the file `options.checkpoint`; empty if there is none. Throws
/// FormatError if it is another one than `model`.
std::optional<SavedModel> saved_run(const Model& model, const FitOptions& options);

/// Returns all values, also for a checkpoint.
Section values_of(const Parameters& parameters);
/// Returns the values of the best epoch that a checkpoint holds. Throws ArgumentError if there
/// are none, and FormatError unless they are values of `parameters`.
Section best_values_of(const std::map<std::string, Section>& sections,
                       const Parameters& parameters);
/// Restores what `values_of` returned.
void restore_values(const Section& values, Parameters& parameters);

/// Throws ArgumentError for a model that is its own teacher, for control of oscillations of a
/// model without quantizers, and for an infinite parameter.
void check_model(const Model& model, const FitOptions& options);

/// Throws GraphError for a trained f32 parameter that is not finite after step `step`: no later
/// loss would be.
void require_finite(const Parameters& parameters, int64_t step);

/// Returns the inputs of `tape` that data fill: all except `other`, if it is valid.
std::vector<FedInput> inputs_but(Tape& tape, NodeId other);

/// True if a thread should read ahead, by the options or else by the data.
bool prefetches(const data::Dataset& dataset, const FitOptions& options);

/// Returns the arithmetic of the options, or else the fastest one for the bits of `graph`.
Arithmetic arithmetic_for(const Graph& graph, const FitOptions& options);

}  // namespace qtape
