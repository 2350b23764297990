// Reshape: returns the elements in another shape.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Reshape {
  static constexpr std::string_view name = "Reshape";
  static constexpr OpDocs docs{
      .summary = "Returns the elements in another shape.",
      .formula = "y = x with another shape of the same number of elements, in row-major order.",
      .operands = {"x has any dtype and shape.",
                   "One extent of `shape` may be -1; it is computed from the others."},
      .gradient = "dx = dy.",
      .saves = "Nothing; y shares the memory of x.",
      .edge_cases = "-1 together with an extent of 0 is refused.",
      .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;

  std::vector<int64_t> shape = {};

  static constexpr auto fields() {
    return std::tuple{field("shape", &Reshape::shape, "extents of y, >= 0; at most one is -1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.backward_in_place = true, .view = true}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Reshape&) const = default;
};

}  // namespace qtape
