// Dequantize: integer codes to values.
#pragma once

#include <optional>

#include "qtape/core/granularity.h"
#include "qtape/core/grid.h"

namespace qtape {

struct Dequantize {
  static constexpr std::string_view name = "Dequantize";
  static constexpr OpDocs docs{
      .summary = "Turns integer codes into values.",
      .formula = {"y = (q - zp) s as `dtype`, rounded once.",
                  "f64 computes in f64, all others in f32."},
      .operands = {"q is s8, u8, s16 or u16.",
                   "scale s and, when affine, zero_point zp have the shape of the granularity "
                   "([1], [channels] or groups); f64 for dtype f64, else f32.",
                   "zp is an integer that the dtype of q holds."},
      .gradient =
          "Where q comes from an op that quantizes: dq = dy s as f32, s being the scale that "
          "forward used.",
      .saves = "The scales.",
      .edge_cases = "Scales that FakeQuantize could not have used stop the step with an error.",
      .source = "ONNX, DequantizeLinear."};

  std::optional<int> axis = std::nullopt;
  std::optional<int64_t> group_size = std::nullopt;
  Scheme scheme = Scheme::Symmetric;
  DType dtype = DType::F32;

  static constexpr auto fields() {
    using D = Dequantize;
    return std::tuple{
        field("axis", &D::axis, "axis with a scale per index; null: one scale per tensor"),
        field("group_size", &D::group_size,
              "indices of the axis that share a scale, all other places having their own; "
              "divides the axis; null: a scale per index"),
        field("scheme", &D::scheme, "Symmetric, or Affine: with zero_point as an operand"),
        field("dtype", &D::dtype, "dtype of y: f32, f64, f16 or bf16")};
  }
  std::vector<Slot> slots() const;
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.backward_in_place = true}; }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Dequantize&) const = default;

  Granularity granularity() const { return {axis, group_size}; }
};

}  // namespace qtape
