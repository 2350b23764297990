// Layers: functions that add the usual nodes with the usual labels. If one throws, it adds
// nothing.
#pragma once

#include <optional>
#include <string>

#include "qtape/engine/graph.h"

namespace qtape {

/// Options of a layer. Labels are `<label>.weight`, `<label>.bias`, `<label>` for the result,
/// those of `add_quantizer` for `<label>.weight` and `<label>.input`, `<label>.bias.quantized`,
/// and those of the leaves of `batch_norm`.
struct LayerOptions {
  int64_t out = 0;  ///< output features or channels, at least 1
  std::optional<Op> weight_quantizer = std::nullopt;
  std::optional<Op> input_quantizer = std::nullopt;  ///< quantizer of x
  bool bias = true;
  /// Rounds the bias to the grid of the accumulators to which it is added, if they have one,
  /// see `accumulators_have_grid`. This includes the case that x already is quantized or a view
  /// of a quantized value (`preceding_quantizer`).
  bool bias_on_grid = true;
  std::string label = "layer";
  Initializer weight_initializer = init::KaimingNormal{};
  /// Folds a batch norm into the layer. Weights are scaled by the norm's factor from running
  /// statistics (FoldFactor) before they are quantized, and the bias is FoldBias regardless of
  /// `bias`. BatchNormCorrection restores the result of the batch norm while batch statistics
  /// are used. The result must have rank 2, 3 or 4.
  std::optional<BatchNorm> folded_norm = std::nullopt;
};

/// y = x w^T + b with weights [out, in]. x f32 or f64 [..., in], y [..., out]. Throws
/// GraphError.
NodeId linear(Graph& graph, NodeId x, const LayerOptions& options);

/// Convolution with filters [out, kernel[0], kernel[1], c / op.groups], and b. x f32 or f64 [n,
/// h, w, c]. Throws GraphError.
NodeId conv2d(Graph& graph, NodeId x, const Conv2d& op, const Shape& kernel,
              const LayerOptions& options);
/// Convolution over [n, l, c] with filters [out, kernel, c / op.groups].
NodeId conv1d(Graph& graph, NodeId x, const Conv1d& op, int64_t kernel,
              const LayerOptions& options);

/// Depthwise convolution: `op` with as many groups as x has channels. `options.out` is a
/// multiple of that number, or 0 for the number itself.
NodeId depthwise_conv2d(Graph& graph, NodeId x, Conv2d op, const Shape& kernel,
                        LayerOptions options);
/// Depthwise convolution over [n, l, c].
NodeId depthwise_conv1d(Graph& graph, NodeId x, Conv1d op, int64_t kernel,
                        LayerOptions options);

/// A depthwise convolution `<label>.depthwise`, `activation` and a 1x1 convolution
/// `<label>.pointwise` with `options.out` channels; both have the quantizers, biases and norms
/// of `options`. Throws GraphError.
NodeId separable_conv2d(Graph& graph, NodeId x, const Conv2d& op, const Shape& kernel,
                        const LayerOptions& options, const Op& activation = Relu{});

/// branch + skip, with each operand quantized by its quantizer, if given, as `<label>.branch`
/// and `<label>.skip`. Throws GraphError for operands of different shapes.
NodeId residual(Graph& graph, NodeId branch, NodeId skip,
                const std::optional<Op>& branch_quantizer,
                const std::optional<Op>& skip_quantizer, const std::string& label);

/// Options of `batch_norm`. Labels are `<label>.gamma`, `<label>.beta`, `<label>.running_mean`,
/// `<label>.running_var` and `<label>` for the result.
struct BatchNormOptions {
  BatchNorm op = {};
  std::string label = "batch_norm";
};

/// Normalizes the channels of x, f32 or f64 [..., c] of rank >= 2. Initially gamma = 1, beta =
/// 0, and the running statistics are mean 0 and variance 1. Throws GraphError.
NodeId batch_norm(Graph& graph, NodeId x, const BatchNormOptions& options = {});

}  // namespace qtape
