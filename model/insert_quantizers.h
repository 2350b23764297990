// Quantizers for graphs that were built without: the first step of post-training quantization.
#pragma once

#include <optional>
#include <string>

#include "qtape/engine/graph.h"

namespace qtape {

/// Which quantizers are inserted; none where there is no op.
struct InsertOptions {
  /// For weights, as of a weight [out, in]: axis 0 is the output channel of a matrix
  /// whatever its layout. Weights of other ranks take the axis as it is.
  std::optional<Op> weight = std::nullopt;
  std::optional<Op> input = std::nullopt;  ///< for the other operand
  /// Weights whose labels match, `*` being any text and `?` any one byte.
  std::string pattern = "*";
  /// Gives weights that a BatchNorm follows Narrow codes where `weight` has Full ones: folding
  /// the norm may change the sign of a channel, and the lowest code has no negative.
  bool narrow_before_norms = false;
  /// Round biases as `linear` does.
  bool bias_on_grid = true;
  /// Also `input` wherever integers need one so that the first output has an integer form:
  /// before sums, poolings and functions whose operands have no grid, and after a sum or a
  /// function that is an answer. What has no integer form at all stays as it is, see
  /// `float_parts`.
  bool complete = false;
};

/// A copy of `graph` with `quantizer` wherever integers need one so that the first output has
/// an integer form, see InsertOptions::complete; `averaged` instead, where there is one, for
/// operands of means.
Graph complete_quantizers(const Graph& graph, const Op& quantizer,
                          const std::optional<Op>& averaged = std::nullopt);

/// True for GlobalAvgPool and Mean, and views of them.
bool is_mean(const Graph& graph, NodeId id);

/// The codes of weights unless another range is asked for: Full up to 4 bits, where a code more
/// is worth most, else Narrow.
CodeRange usual_weight_codes(int bits);

/// Quantizers whose states calibration fills, of so many bits: weights symmetric with a scale
/// per output, inputs affine without a sign, wherever integers need them. The largest magnitude
/// of a channel is (q_max - q_min) / 2 steps. Without `weight_codes`, which are Narrow or Full,
/// these are usual_weight_codes, and Narrow before a BatchNorm. Throws ArgumentError for
/// Unsigned ones.
InsertOptions calibrated_quantizers(int weight_bits, int activation_bits,
                                    std::optional<CodeRange> weight_codes = std::nullopt);

/// A copy of `graph` with quantizers before each product with weights, MatMul, Conv1d or
/// Conv2d, whose weights depend on no input and have a matching label: that of the parameter
/// that they are or, as with a folded batch norm, are computed from. `fc1.weight` is quantized
/// by `fc1.weight.quantized`, the other operand by `fc1.input.quantized`, as `linear` labels
/// them, and their states follow; where the operand only picks or pads codes, as a MaxPool
/// does, what it picks from is quantized. What several products share is quantized once, a
/// weight once for each layout, and where a label is taken a number follows it; operands that
/// are quantized already, or show the codes of a quantizer
/// (`quantizer_behind`), are left alone. Where a product that gained a quantizer feeds an
/// AddBias of what depends on no input and its accumulators have a grid
/// (`accumulators_have_grid`), the bias is rounded to it by `fc1.bias.quantized`, and a
/// BatchNormCorrection that follows reads it so. Values of parameters fit the copy: labels
/// stay. Throws GraphError when nothing matches and for ops that are no quantizers.
Graph insert_quantizers(const Graph& graph, const InsertOptions& options);

}  // namespace qtape
