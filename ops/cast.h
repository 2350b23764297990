// Cast: converts values to another dtype.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Cast {
  static constexpr std::string_view name = "Cast";
  static constexpr OpDocs docs{
      .summary = "Converts values to another dtype.",
      .formula = {"y = x as `dtype`.",
                  "To integers: rounded half to even and clamped to the range.",
                  "To f16 and bf16: rounded half to even to f32, then again to the dtype."},
      .operands = {"x has any shape and any dtype except s64.", "y has the shape of x."},
      .gradient = "dx = dy as the dtype of x when both are floats, else none.",
      .saves = "Nothing.",
      .edge_cases = "To integers, NaN becomes 0.",
      .source = "Elementary."};

  DType dtype = DType::F32;

  static constexpr auto fields() {
    return std::tuple{field("dtype", &Cast::dtype, "dtype of y, any except s64")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const {
    check(dtype != DType::S64 && inputs[0].dtype != DType::S64, "s64 cannot be cast");
    return {dtype, inputs[0].shape};
  }
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Cast&) const = default;
};

}  // namespace qtape
