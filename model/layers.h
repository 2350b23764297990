// Layers: helpers that add the usual nodes with the usual labels.
#pragma once

#include <optional>
#include <string>

#include "qtape/engine/graph.h"

namespace qtape {

/// What a layer is built of. Labels are `<label>.weight`, `<label>.bias`, `<label>` for the
/// result, those of `add_quantizer` for `<label>.weight` and `<label>.input`,
/// `<label>.bias.quantized`, and those of the leaves of `batch_norm`.
struct LayerOptions {
  int64_t out = 0;  ///< output features or channels, at least 1
  std::optional<Op> weight_quantizer = std::nullopt;
  std::optional<Op> input_quantizer = std::nullopt;  ///< of x
  bool bias = true;
  /// Round the bias to the grid of the accumulators that it is added to, where they have one:
  /// see `accumulators_have_grid`. A quantizer that x itself is or shows (`quantizer_behind`)
  /// counts as well.
  bool bias_on_grid = true;
  std::string label = "layer";
  Initializer weight_initializer = init::KaimingNormal{};
  /// A batch norm after the layer that is folded into it: weights are quantized after they took
  /// the norm's factor by running statistics (FoldFactor), the bias is FoldBias whatever `bias`
  /// says, and BatchNormCorrection makes the result that of the batch norm while the statistics
  /// are those of the batch. The result needs rank 2, 3 or 4.
  std::optional<BatchNorm> folded_norm = std::nullopt;
};

/// y = x w^T + b with weights [out, in]. x f32 or f64 [..., in], y [..., out]. Throws
/// GraphError.
NodeId linear(Graph& graph, NodeId x, const LayerOptions& options);

/// A convolution with filters [out, kernel[0], kernel[1], c / op.groups], and b. x f32 or f64
/// [n, h, w, c]. Throws GraphError.
NodeId conv2d(Graph& graph, NodeId x, const Conv2d& op, const Shape& kernel,
              const LayerOptions& options);
/// The same over [n, l, c] with filters [out, kernel, c / op.groups].
NodeId conv1d(Graph& graph, NodeId x, const Conv1d& op, int64_t kernel,
              const LayerOptions& options);

/// Convolutions of each channel by itself: `op` with as many groups as x has channels.
/// `options.out` is a multiple of these, or 0 for as many.
NodeId depthwise_conv2d(Graph& graph, NodeId x, Conv2d op, const Shape& kernel,
                        LayerOptions options);
/// The same over [n, l, c].
NodeId depthwise_conv1d(Graph& graph, NodeId x, Conv1d op, int64_t kernel,
                        LayerOptions options);

/// A depthwise convolution `<label>.depthwise`, `activation` and a convolution 1x1
/// `<label>.pointwise` of `options.out` channels; both with the quantizers, biases and norms
/// that `options` has. Throws GraphError.
NodeId separable_conv2d(Graph& graph, NodeId x, const Conv2d& op, const Shape& kernel,
                        const LayerOptions& options, const Op& activation = Relu{});

/// branch + skip, each after a quantizer of its own, `<label>.branch` and `<label>.skip`, where
/// there is one. Throws GraphError for operands of different shapes.
NodeId residual(Graph& graph, NodeId branch, NodeId skip,
                const std::optional<Op>& branch_quantizer,
                const std::optional<Op>& skip_quantizer, const std::string& label);

/// What `batch_norm` builds. Labels are `<label>.gamma`, `<label>.beta`,
/// `<label>.running_mean`, `<label>.running_var` and `<label>` for the result.
struct BatchNormOptions {
  BatchNorm op = {};
  std::string label = "batch_norm";
};

/// Normalizes the channels of x, f32 or f64 [..., c] of rank >= 2, with gamma = 1,
/// beta = 0 and running statistics of mean 0 and variance 1 at first. Throws GraphError.
NodeId batch_norm(Graph& graph, NodeId x, const BatchNormOptions& options = {});

}  // namespace qtape
