// Flatten: joins the last axes into one.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Flatten {
  static constexpr std::string_view name = "Flatten";
  static constexpr OpDocs docs{
      .summary = "Joins the last axes into one.",
      .formula = "y = x with the axes from start_axis on joined into one, in row-major order.",
      .operands = {"x is of any dtype, [..., a, b, ...].",
                   "y is [..., a b ...] of rank start_axis + 1."},
      .gradient = "dx = dy.",
      .saves = "Nothing; y shares the memory of x.",
      .edge_cases = "With start_axis the rank of x, an extent of 1 is added.",
      .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;

  int start_axis = 1;

  static constexpr auto fields() {
    return std::tuple{
        field("start_axis", &Flatten::start_axis,
              "first axis to join, in [-rank, rank]; with rank an extent of 1 is added")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.backward_in_place = true, .view = true}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Flatten&) const = default;
};

}  // namespace qtape
