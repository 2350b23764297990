// AddBias: y = x + b along the last axis.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct AddBias {
  static constexpr std::string_view name = "AddBias";
  static constexpr std::string_view doc =
      "y = x + b along the last axis. x f32 or f64 [..., n] of rank >= 1, b [n] of the same "
      "dtype; y has the shape of x. Gradients: dx = dy, db = the sum of dy over all axes but "
      "the last, in double and in index order. Keeps nothing.";

  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const { return {{.name = "x"}, {.name = "b"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.forward_in_place = true, .backward_in_place = true}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const AddBias&) const = default;
};

}  // namespace qtape
