// Dequantize: converts integer codes to values.
#pragma once

#include <optional>

#include "qtape/ops/core/quantizer_op.h"

namespace qtape {

struct Dequantize {
  static constexpr std::string_view name = "Dequantize";
  static constexpr OpDocs docs{
      .summary = "Converts integer codes to values.",
      .formula = {"y = (q - zp) s as `dtype`, rounded once.",
                  "f64 computes in f64, all others in f32."},
      .operands = {"q is s8, u8, s16 or u16.",
                   "scale s and, when affine, zero_point zp have the shape of the granularity "
                   "([1], [channels] or groups); f64 for dtype f64, else f32.",
                   "zp is an integer within the range of the dtype of q."},
      .gradient =
          "If q is the output of an op that quantizes: dq = dy s as f32, where s is the scale "
          "used in forward.",
      .saves = "The scales.",
      .edge_cases =
          "A scale that is not a positive normal number, or a zero point out of range, stops "
          "the step with an error.",
      .source = "ONNX, DequantizeLinear."};

  std::optional<int> axis = std::nullopt;
  std::optional<int64_t> group_size = std::nullopt;
  Scheme scheme = Grid{}.scheme;
  DType dtype = DType::F32;

  static constexpr auto fields() {
    return std::tuple_cat(
        grid_fields<Dequantize>(),
        std::tuple{field("dtype", &Dequantize::dtype, "dtype of y: f32, f64, f16 or bf16")});
  }
  std::vector<Slot> slots() const {
    return quantizer_slots({.name = "q", .codes = true}, operands());
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.backward_in_place = true}; }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Dequantize&) const = default;

  std::vector<QuantizerOperand> operands() const { return scale_operands(scheme); }
};

}  // namespace qtape
