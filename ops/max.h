// Max: the largest element along axes.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Max {
  static constexpr std::string_view name = "Max";
  static constexpr OpDocs docs{
      .summary = "The largest element over axes.",
      .formula =
          "y = the largest element of x over `axes`, or over all axes if none are given.",
      .operands = {"x is f32 or f64.",
                   "y lacks those axes, or has extent 1 there with keep_dims."},
      .gradient = "dy goes to the first element, in index order, that is the maximum.",
      .saves = "The index of that element, 8 bytes per element of y.",
      .edge_cases = {"NaN is larger than any number.",
                     "Maxima over no elements are refused, unless y is empty."},
      .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;

  std::vector<int> axes = {};
  bool keep_dims = false;

  static constexpr auto fields() {
    return std::tuple{
        field("axes", &Max::axes, "each in [-rank, rank), none twice; empty: all"),
        field("keep_dims", &Max::keep_dims, "keep the axes with extent 1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Max&) const = default;
};

}  // namespace qtape
