// Quantize: converts values to integer codes.
#pragma once

#include <optional>

#include "qtape/ops/core/quantizer_op.h"

namespace qtape {

struct Quantize {
  static constexpr std::string_view name = "Quantize";
  static constexpr OpDocs docs{
      .summary = "Converts values to integer codes.",
      .formula = {"y = clamp(round(x / s) + zp, q_min, q_max).",
                  "Dequantize of y equals FakeQuantize of x, bit for bit."},
      .operands = {"x is f32, f64, f16 or bf16; y is s8 up to 8 bits, s16 above, u8 and u16 "
                   "with range Unsigned.",
                   "scale s and, when affine, zero_point zp have the shape of the granularity "
                   "([1], [channels] or groups); f64 for f64 x, else f32.",
                   "zp is an integer among the codes."},
      .gradient =
          "Straight-through: dy is f32, dx = dy / s inside the range, else 0, where s is the "
          "scale used in forward.",
      .saves = "One bit per element and the scales.",
      .edge_cases = {"Infinities go to the end on their side.",
                     "NaN, which has no code, stops the step with an error, and so do scales "
                     "that are not positive normal numbers.",
                     "Quantizes in every mode."},
      .source = "ONNX, QuantizeLinear."};

  int bits = default_bits;
  std::optional<int> axis = std::nullopt;
  std::optional<int64_t> group_size = std::nullopt;
  CodeRange range = default_range;
  Scheme scheme = Grid{}.scheme;
  Rounding rounding = Grid{}.rounding;
  Division division = Grid{}.division;
  ZeroPoint zero_point = Grid{}.zero_point;
  MaskRule mask = default_mask;

  static constexpr auto fields() {
    return std::tuple_cat(grid_fields<Quantize>(), std::tuple{mask_field<Quantize>()});
  }
  std::vector<Slot> slots() const { return quantizer_slots({.name = "x"}, operands()); }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.backward_in_place = true, .codes = true}; }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Quantize&) const = default;

  std::vector<QuantizerOperand> operands() const { return scale_operands(scheme); }
};

}  // namespace qtape
