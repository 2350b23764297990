#include "qtape/model/training/fit_setup.h"

#include <algorithm>
#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/training/exact.h"

namespace qtape {
namespace {

// With fewer bits, sums of codes that are exactly 0 cost accuracy.
constexpr int fewest_bits_on_codes = 4;

/// Returns the loss of a model after checking that the model can be trained on `dataset`.
NodeId loss_of(const Model& model, const data::Dataset& dataset) {
  check(model.loss().has_value(),
        "the model has no loss: no output from which training can start");
  const Node& loss = model.graph()[*model.loss()];
  if (!std::holds_alternative<SoftmaxCrossEntropy>(loss.op)) return *model.loss();
  const int64_t classes = model.graph()[loss.operands[0]].type.shape[-1];
  require<ArgumentError>(dataset.classes() <= classes, "the data has {} classes, the model {}",
                         dataset.classes(), classes);
  return *model.loss();
}

}  // namespace

void check_counts(const FitOptions& options) {
  const auto at_least = [](std::string_view name, int64_t least, int64_t value) {
    require<ArgumentError>(value >= least, "{} must be at least {}, got {}", name, least,
                           value);
  };
  at_least("epochs", 1, options.epochs);
  at_least("threads", 1, options.threads);
  at_least("patience", 0, options.patience);
  at_least("checkpoint_every", 0, options.checkpoint_every);
  require<ArgumentError>(
      std::isfinite(options.max_gradient_norm) && options.max_gradient_norm >= 0,
      "max_gradient_norm must be finite and at least 0, got {}", options.max_gradient_norm);
}

DistilledGraph training_graph(const Model& model, const data::Dataset& dataset,
                              const FitOptions& options) {
  const NodeId loss = loss_of(model, dataset);
  Graph graph = model.graph().with_batch(options.batch);
  if (options.distillation)
    return distilled(graph, model.answer(), loss, *options.distillation);
  return {.graph = std::move(graph), .loss = loss, .probabilities = {}};
}

std::vector<FedInput> inputs_but(Tape& tape, NodeId other) {
  std::vector<FedInput> inputs = inputs_of(tape);
  if (other.index < 0) return inputs;
  std::erase_if(inputs,
                [&](const FedInput& each) { return each.label == tape.graph()[other].label; });
  return inputs;
}

bool prefetches(const data::Dataset& dataset, const FitOptions& options) {
  const bool pays = dataset.computed() || options.augmentation.any();
  return options.prefetch.value_or(pays && options.threads > 1);
}

Arithmetic arithmetic_for(const Graph& graph, const FitOptions& options) {
  if (options.arithmetic) return *options.arithmetic;
  const std::vector<NodeId> ids = quantizers(graph);
  const bool few = std::ranges::any_of(ids, [&](NodeId id) {
    const CodeLimits limits = grid_of(graph, id).limits;
    return limits.q_max - limits.q_min < (1 << fewest_bits_on_codes) - 2;
  });
  return ids.empty() || few ? Arithmetic{} : products_of_codes();
}

}  // namespace qtape
