// AddBias: y = x + b along the last axis.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct AddBias {
  static constexpr std::string_view name = "AddBias";
  static constexpr OpDocs docs{
      .summary = "Adds a bias along the last axis.",
      .formula = "y = x + b along the last axis.",
      .operands = {"x is f32 or f64 [..., n] of rank >= 1, b [n] of the same dtype.",
                   "y has the shape of x."},
      .gradient = {"dx = dy.",
                   "db = the sum of dy over all axes except the last, in double: in index "
                   "order, or in up to 16 pieces of rows."},
      .saves = "Nothing.",
      .edge_cases = "None.",
      .source = "Elementary."};

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
