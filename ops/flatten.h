// Flatten: joins the last axes into one.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Flatten {
  static constexpr std::string_view name = "Flatten";
  static constexpr std::string_view doc =
      "y = x with the axes from start_axis on joined into one, in row-major order. x of any "
      "dtype, [..., a, b, ...]; y [..., a b ...] of rank start_axis + 1. Gradient: dx = dy. "
      "Keeps nothing; y shares the memory of x.";

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
