// Layers: helpers that add the usual nodes with the usual labels.
#pragma once

#include <optional>
#include <string>

#include "qtape/engine/graph.h"

namespace qtape {

/// What `linear` builds. Labels are `<label>.weight`, `<label>.bias`, `<label>` for the result,
/// those of `add_quantizer` for `<label>.weight` and `<label>.input`,
/// `<label>.bias.quantized`, and those of the leaves of `batch_norm`.
struct LinearOptions {
  int64_t out = 0;                                    ///< output features, at least 1
  std::optional<Op> weight_quantizer = std::nullopt;  ///< of the weight [out, in]
  std::optional<Op> input_quantizer = std::nullopt;   ///< of x
  bool bias = true;
  /// Round the bias to the grid of the accumulators that it is added to, where they have one:
  /// see `accumulators_have_grid`. A quantizer that x itself is or shows (`quantizer_behind`)
  /// counts as well.
  bool bias_on_grid = true;
  std::string label = "linear";
  Initializer weight_initializer = init::KaimingNormal{};
  /// A batch norm after the layer that is folded into it: weights are quantized after they took
  /// the norm's factor by running statistics (FoldFactor), the bias is FoldBias whatever `bias`
  /// says, and BatchNormCorrection makes the result that of the batch norm while the statistics
  /// are those of the batch. x needs rank >= 2.
  std::optional<BatchNorm> folded_norm = std::nullopt;
};

/// y = x w^T + b. x f32 or f64 [..., in], y [..., out]. Throws GraphError.
NodeId linear(Graph& graph, NodeId x, const LinearOptions& options);

/// What `batch_norm` builds. Labels are `<label>.gamma`, `<label>.beta`,
/// `<label>.running_mean`,
/// `<label>.running_var` and `<label>` for the result.
struct BatchNormOptions {
  BatchNorm op = {};
  std::string label = "batch_norm";
};

/// Normalizes the channels of x, f32 or f64 [..., c] of rank >= 2, with gamma = 1,
/// beta = 0 and running statistics of mean 0 and variance 1 at first. Throws GraphError.
NodeId batch_norm(Graph& graph, NodeId x, const BatchNormOptions& options = {});

}  // namespace qtape
