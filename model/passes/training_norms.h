// Batch norms that are kept in training while their factors are folded into the preceding
// layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qtape/engine/serialize.h"

namespace qtape {

/// Result of with_training_norms.
struct TrainingNorms {
  std::optional<SavedModel> model = {};  ///< empty if nothing changes
  /// Replaced norms: labels, or names such as `BatchNorm after conv1`.
  std::vector<std::string> folded = {};
};

/// Replaces BatchNorm nodes by norms that are folded while they train: weights of the preceding
/// product are multiplied by FoldFactor before they are quantized, FoldBias is the bias, and
/// BatchNormCorrection normalizes by the statistics of the batch. Norms without such a product
/// get one first (`norm_products`). Norms that `fold_norms` would then fold are replaced,
/// except after transposed convolutions, after a bias that is not a parameter of that product
/// alone, and with a gamma of 0, which would not learn. Such a bias, which a norm cancels, goes
/// into the running mean. The result computes the same in evaluation, up to f32 rounding.
/// Folding before training instead would train without batch statistics.
TrainingNorms with_training_norms(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
