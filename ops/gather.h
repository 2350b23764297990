// Gather: elements along an axis, by constant indices.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Gather {
  static constexpr std::string_view name = "Gather";
  static constexpr OpDocs docs{
      .summary = "Elements along an axis at constant indices, in any order and any number.",
      .formula = "y[..., k, ...] = x[..., indices[k], ...] along `axis`.",
      .operands = "x is f32, f64, integer codes (s8, u8, s16 or u16) or s32.",
      .gradient =
          "dx = the sum of dy over the places that hold the element, added in double in "
          "index order; 0 where there are none.",
      .saves = "Nothing.",
      .edge_cases = "Without indices y has no elements.",
      .source = "NumPy's take."};
  static constexpr Sign sign = Sign::Kept;

  int axis = 0;
  std::vector<int64_t> indices = {};

  static constexpr auto fields() {
    return std::tuple{
        field("axis", &Gather::axis, "negative values count from the back"),
        field("indices", &Gather::indices, "of x along the axis, each in 0..extent - 1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Gather&) const = default;
};

}  // namespace qtape
