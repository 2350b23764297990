// Concat: tensors one after another along an axis.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Concat {
  static constexpr std::string_view name = "Concat";
  static constexpr std::string_view doc =
      "y = the operands x0, x1, ... one after another along axis: the extent of y there is the "
      "sum of theirs, which may be 0. Operands of one dtype, any, and of equal shapes beside "
      "the axis. Gradient: dx_i = the part of dy along axis that x_i became. Keeps nothing.";

  int axis = 0;
  int count = 2;

  static constexpr auto fields() {
    return std::tuple{field("axis", &Concat::axis, "axis, negative from the back"),
                      field("count", &Concat::count, "number of operands, 1..64")};
  }
  /// Throws GraphError for a count out of range.
  std::vector<Slot> slots() const;
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Concat&) const = default;
};

}  // namespace qtape
