// Sum: sums elements along axes.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Sum {
  static constexpr std::string_view name = "Sum";
  static constexpr BatchReduction batch_reduction = BatchReduction::Sum;
  static constexpr OpDocs docs{
      .summary = "The sum over axes.",
      .formula = {"y = the sum of x over `axes`, or over all axes if none are given.",
                  "Added in double: in index order if the last axis is kept (in up to 16 "
                  "pieces of rows if no other axis is), else in 16 interleaved partial sums."},
      .operands = {"x is f32 or f64 of any shape.",
                   "y lacks those axes, or has extent 1 there with keep_dims."},
      .gradient = "dx = dy, repeated.",
      .saves = "Nothing.",
      .edge_cases = "An empty sum is 0.",
      .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;

  std::vector<int> axes = {};
  bool keep_dims = false;

  static constexpr auto fields() {
    return std::tuple{
        field("axes", &Sum::axes, "each in [-rank, rank), none twice; empty: all"),
        field("keep_dims", &Sum::keep_dims, "keep the axes with extent 1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Sum&) const = default;
};

}  // namespace qtape
