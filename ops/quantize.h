// Quantize: values to integer codes.
#pragma once

#include <optional>

#include "qtape/core/granularity.h"
#include "qtape/core/grid.h"

namespace qtape {

struct Quantize {
  static constexpr std::string_view name = "Quantize";
  static constexpr OpDocs docs{
      .summary = "Turns values into integer codes.",
      .formula = {"y = clamp(round(x / s) + zp, q_min, q_max).",
                  "Dequantize of y gives what FakeQuantize gives, bit for bit."},
      .operands = {"x is f32, f64, f16 or bf16; y is s8 up to 8 bits, s16 above, u8 and u16 "
                   "with range Unsigned.",
                   "scale s and, when affine, zero_point zp have the shape of the granularity "
                   "([1], [channels] or groups); f64 for f64 x, else f32.",
                   "zp is an integer among the codes."},
      .gradient =
          "Straight through: dy is f32, dx = dy / s inside the range, else 0, s being the "
          "scale that forward used.",
      .saves = "One bit per element and the scales.",
      .edge_cases = {"Infinities go to their end.",
                     "NaN, which has no code, stops the step with an error, as do scales that "
                     "cannot be divided by.",
                     "The same in every mode."},
      .source = "ONNX, QuantizeLinear."};

  int bits = 8;
  std::optional<int> axis = std::nullopt;
  std::optional<int64_t> group_size = std::nullopt;
  CodeRange range = CodeRange::Narrow;
  Scheme scheme = Scheme::Symmetric;
  Rounding rounding = Rounding::HalfEven;
  Division division = Division::Exact;
  ZeroPoint zero_point = ZeroPoint::AfterRounding;
  MaskRule mask = MaskRule::Code;

  static constexpr auto fields() {
    using Q = Quantize;
    return std::tuple{
        field("bits", &Q::bits, "2..16; 1 only with range Unsigned"),
        field("axis", &Q::axis, "axis with a scale per index; null: one scale per tensor"),
        field("group_size", &Q::group_size,
              "indices of the axis that share a scale, all other places having their own; "
              "divides the axis; null: a scale per index"),
        field("range", &Q::range, "Narrow [-q, q], Full [-q-1, q], Unsigned [0, 2^bits - 1]"),
        field("scheme", &Q::scheme, "Symmetric, or Affine: with zero_point as an operand"),
        field("rounding", &Q::rounding, "HalfEven, HalfAway or HalfUp"),
        field("division", &Q::division, "Exact x / s or Reciprocal x (1 / s)"),
        field("zero_point", &Q::zero_point,
              "AfterRounding or BeforeRounding round(x / s + zp)"),
        field("mask", &Q::mask, "inside judged by Code or by Value")};
  }
  std::vector<Slot> slots() const;
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.backward_in_place = true, .codes = true}; }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Quantize&) const = default;

  Grid grid() const {
    return {code_limits(bits, range), scheme, rounding, division, zero_point};
  }
  Granularity granularity() const { return {axis, group_size}; }
};

}  // namespace qtape
