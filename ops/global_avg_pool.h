// GlobalAvgPool: the mean of each channel over all positions.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct GlobalAvgPool {
  static constexpr std::string_view name = "GlobalAvgPool";
  static constexpr OpDocs docs{
      .summary = "The mean of each channel over all positions of an image.",
      .formula = {"y[n, c] = the mean of x[n, i, j, c] over i and j.",
                  "Added and divided in double, as in Mean."},
      .operands = {"x is [n, h, w, c] or [n, l, c], f32 or f64; h, w and l >= 1.",
                   "y is [n, c], or with keep_dims [n, 1, 1, c] or [n, 1, c]."},
      .gradient = "dx = dy * (1 / (h w)) in double, repeated.",
      .saves = "Nothing.",
      .edge_cases = "Means over no positions are refused.",
      .source = "Lin et al., arXiv 1312.4400, section 3.2."};
  static constexpr Sign sign = Sign::Kept;

  bool keep_dims = false;

  static constexpr auto fields() {
    return std::tuple{
        field("keep_dims", &GlobalAvgPool::keep_dims, "keep the spatial axes with extent 1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  /// Axes of x that are averaged: all except the first and the last.
  static std::vector<int> axes(const Shape& x);
  bool operator==(const GlobalAvgPool&) const = default;
};

}  // namespace qtape
