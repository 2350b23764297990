// Transpose: permutes axes.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Transpose {
  static constexpr std::string_view name = "Transpose";
  static constexpr OpDocs docs{
      .summary = "Permutes the axes.",
      .formula = {"y[i_p0, i_p1, ...] = x[i_0, i_1, ...]: axis k of y is axis permutation[k] "
                  "of x.",
                  "Without a permutation the axes are reversed."},
      .operands = "x has any dtype and shape.",
      .gradient = "dx = dy permuted back.",
      .saves = "Nothing.",
      .edge_cases = "None.",
      .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;

  std::vector<int> permutation = {};

  static constexpr auto fields() {
    return std::tuple{
        field("permutation", &Transpose::permutation,
              "each axis of x once, negative values count from the back; empty: reversed")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Transpose&) const = default;
};

}  // namespace qtape
