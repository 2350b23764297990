// Insertion of quantizers into float graphs: the first step of post-training quantization.
#pragma once

#include <optional>
#include <string>

#include "qtape/engine/graph.h"

namespace qtape {

/// Quantizers to insert; an empty op inserts none.
struct InsertOptions {
  /// For weights, with axes as in a weight [out, in]: axis 0 is the output channel of a matrix
  /// in any layout. For weights of other ranks the axis is used unchanged.
  std::optional<Op> weight = std::nullopt;
  std::optional<Op> input = std::nullopt;  ///< for the other operand
  /// Weights whose labels match; `*` matches any text and `?` any one byte.
  std::string pattern = "*";
  /// Uses Narrow codes for weights followed by a BatchNorm if `weight` has Full ones: folding
  /// the norm may negate a channel, and the lowest code has no negative.
  bool narrow_before_norms = false;
  /// Rounds biases as `linear` does.
  bool bias_on_grid = true;
  /// Also inserts `input` wherever integers need a quantizer so that all answers have an
  /// integer form: before sums, poolings and functions whose operands have no grid, and after a
  /// sum or a function that is an answer. Ops without an integer form stay unchanged, see
  /// `float_parts`.
  bool complete = false;
  /// With `complete`: for cell states of LSTM layers, see `quantize_cell_states`; their
  /// functions read `input` after these. Empty: as everywhere else.
  std::optional<Op> cell = std::nullopt;
};

/// Returns a copy of `graph` with `quantizer` wherever integers need one so that all
/// answers have an integer form, see InsertOptions::complete. If given, `averaged` is used for
/// operands of means instead.
Graph complete_quantizers(const Graph& graph, const Op& quantizer,
                          const std::optional<Op>& averaged = std::nullopt);

/// Returns a copy of `graph` with `quantizer` after each answer that is not quantized, for
/// targets whose outputs are codes. A loss reads the quantized answer.
Graph quantize_answers(const Graph& graph, const Op& quantizer);

/// True for GlobalAvgPool and Mean, and views of them.
bool is_mean(const Graph& graph, NodeId id);

/// Returns the default code range of weights: Full up to 4 bits, where an additional code
/// matters most, otherwise Narrow.
CodeRange default_weight_codes(int bits);

/// Returns quantizers with this number of bits whose states calibration fills: symmetric for
/// weights with one scale per output, affine and unsigned for inputs, wherever integers need
/// them. The largest magnitude of a channel is (q_max - q_min) / 2 steps. `weight_codes` must
/// be Narrow or Full; if empty, default_weight_codes, and Narrow before a BatchNorm. Throws
/// ArgumentError for Unsigned.
InsertOptions calibrated_quantizers(int weight_bits, int activation_bits,
                                    std::optional<CodeRange> weight_codes = std::nullopt);

/// Returns a quantizer of activations with symmetric codes of both signs: the zero point is 0.
FakeQuantize with_signed_codes(FakeQuantize quantizer);

/// Returns a copy of `graph` with quantizers for the operands of each product with weights
/// (MatMul, Conv1d or Conv2d) whose weights depend on no input and have a matching label. The
/// label is that of the parameter that the weight is or, as with a folded batch norm, from
/// which it is computed. `fc1.weight` is quantized by `fc1.weight.quantized`, the other operand
/// by `fc1.input.quantized`, followed by their states, with the labels that `linear` uses. If
/// the operand only selects or pads codes, as MaxPool does, its source is quantized. A value
/// that several products share is quantized once, a weight once for each layout; if a label is
/// taken, a number is appended. Operands that are quantized already, or views of quantized
/// values (`preceding_quantizer`), stay unchanged.
///
/// If a product that gained a quantizer feeds an AddBias whose bias depends on no input, and
/// its accumulators have a grid (`accumulators_have_grid`), the bias is rounded to that grid by
/// `fc1.bias.quantized`, and a following BatchNormCorrection reads the rounded bias. Parameter
/// values fit the copy, because labels are kept. Throws GraphError for ops that are
/// not quantizers, and if nothing matches, unless the quantizers of all other nodes are
/// inserted as well (`complete` with the pattern `*`).
Graph insert_quantizers(const Graph& graph, const InsertOptions& options);

}  // namespace qtape
