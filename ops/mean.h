// Mean: the mean over axes.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Mean {
  static constexpr std::string_view name = "Mean";
  static constexpr BatchReduction batch_reduction = BatchReduction::Mean;
  static constexpr OpDocs docs{
      .summary = "The mean over axes.",
      .formula = {"y = the mean of x over `axes`, or over all axes if none are given.",
                  "Added in double: in index order if the last axis is kept (in up to 16 "
                  "pieces of rows if no other axis is), else in 16 interleaved partial sums.",
                  "Divided by the number of elements n in double."},
      .operands = {"x is f32 or f64 of any shape.",
                   "y lacks those axes, or has extent 1 there with keep_dims."},
      .gradient = "dx = dy * (1 / n) in double, repeated.",
      .saves = "Nothing.",
      .edge_cases = "Means over no elements are refused, unless y is empty.",
      .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;

  std::vector<int> axes = {};
  bool keep_dims = false;

  static constexpr auto fields() {
    return std::tuple{
        field("axes", &Mean::axes, "each in [-rank, rank), none twice; empty: all"),
        field("keep_dims", &Mean::keep_dims, "keep the axes with extent 1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Mean&) const = default;
};

}  // namespace qtape
