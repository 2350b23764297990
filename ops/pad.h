// Pad: adds a border with a constant value.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Pad {
  static constexpr std::string_view name = "Pad";
  static constexpr OpDocs docs{
      .summary = "Adds a border with a constant value around a tensor.",
      .formula = "y = x at the positions from `begin`, and `value` elsewhere.",
      .operands = {"x is f32 or f64 of any shape.",
                   "y has extent begin + extent of x + end along each axis."},
      .gradient = "dx = dy at the positions from `begin`.",
      .saves = "Nothing.",
      .edge_cases = {"`value` is rounded to x's dtype, and must be finite in f32.",
                     "In integer programs it becomes the nearest code of x's grid, ties to "
                     "even, clamped to the codes."},
      .source = "Elementary."};

  Shape begin = {};
  Shape end = {};
  double value = 0;

  static constexpr auto fields() {
    return std::tuple{field("begin", &Pad::begin, "elements before x along each axis"),
                      field("end", &Pad::end, "elements after x along each axis"),
                      field("value", &Pad::value, "value of the border; a finite f32")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Pad&) const = default;
};

}  // namespace qtape
