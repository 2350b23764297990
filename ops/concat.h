// Concat: concatenates tensors along an axis.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Concat {
  static constexpr std::string_view name = "Concat";
  static constexpr OpDocs docs{
      .summary = "Concatenates tensors along an axis.",
      .formula = "y = the concatenation of the operands x0, x1, ... along `axis`.",
      .operands = {"Operands have the same dtype, any, and equal shapes except along the axis.",
                   "The extent of y along the axis is the sum of the operands' extents."},
      .gradient = "dx_i = the part of dy along the axis that corresponds to x_i.",
      .saves = "Nothing.",
      .edge_cases = "The extents along the axis may be 0.",
      .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;

  int axis = 0;
  int count = 2;

  static constexpr auto fields() {
    return std::tuple{field("axis", &Concat::axis, "axis, negative from the back"),
                      field("count", &Concat::count, "number of operands, 1..64")};
  }
  /// Throws GraphError if `count` is out of range.
  std::vector<Slot> slots() const;
  TensorType infer(Inputs inputs) const;
  bool mixes_samples(Inputs inputs) const {
    return axis == 0 || axis + static_cast<int>(inputs[0].shape.rank()) == 0;
  }
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Concat&) const = default;
};

}  // namespace qtape
