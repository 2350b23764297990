// FakeQuantizePACT: fake quantization with learned clipping values.
#pragma once

#include <optional>

#include "qtape/ops/core/quantizer_op.h"

namespace qtape {

struct FakeQuantizePACT {
  static constexpr std::string_view name = "FakeQuantizePACT";
  static constexpr WholeBatch whole_batch = WholeBatch::Forward;
  static constexpr OpDocs docs{
      .summary = "Fake quantization with learned clipping values.",
      .formula = {"y = s clamp(round(x / s), q_min, q_max) with s = max(alpha / q_max, floor) "
                  "and a trained clipping value alpha.",
                  "An alpha of 0 is not initialised: the first observed batch sets it to the "
                  "largest x (|x| for signed ranges)."},
      .operands = {"x is f32, f64, f16 or bf16; y has its type.",
                   "alpha is a Parameter or a State with the shape and dtype of "
                   "FakeQuantize's scale."},
      .gradient =
          {"dx = dy for 0 <= x < alpha (|x| < alpha for signed ranges), else 0.",
           "dalpha = sum dy over x >= alpha, minus sum dy over x <= -alpha for signed ranges.",
           "During warm-up and while alpha is 0, alpha follows the data and gets no gradient, "
           "and dx = dy for x >= 0 or, signed, everywhere."},
      .saves = "x and the scales.",
      .edge_cases = {"An alpha below 0 or not finite stops the step.", "range Full is refused.",
                     "NaN stays NaN and contributes nothing to other gradients.",
                     "Disabled, or in a mode that does not quantize: y = x, dx = dy."},
      .source = "Choi et al., arXiv 1805.06085."};

  int bits = default_bits;
  std::optional<int> axis = std::nullopt;
  std::optional<int64_t> group_size = std::nullopt;
  CodeRange range = CodeRange::Unsigned;
  Rounding rounding = Grid{}.rounding;
  Division division = Grid{}.division;
  double floor = Grid{}.floor;

  static constexpr auto fields() { return grid_fields<FakeQuantizePACT>(); }
  std::vector<Slot> slots() const { return quantizer_slots({.name = "x"}, operands()); }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.operands = 1u, .backward_in_place = true}; }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const FakeQuantizePACT&) const = default;

  std::vector<QuantizerOperand> operands() const {
    return {{.name = "alpha", .trained = true, .written = true}};
  }
  void store(const TensorType& x, std::span<const ValueRange<double>> ranges,
             QuantizerValues values) const;
  void store(const TensorType& x, std::span<const QParams<double>> qparams,
             QuantizerValues values) const;
  std::vector<QParams<double>> load(const TensorType& x, QuantizerValues values) const;
  bool reads_data(const TensorType& x, QuantizerValues values, bool observing) const;
};

}  // namespace qtape
