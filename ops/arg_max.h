// ArgMax: index of the largest element along an axis.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct ArgMax {
  static constexpr std::string_view name = "ArgMax";
  static constexpr OpDocs docs{
      .summary = "Index of the largest element along an axis.",
      .formula =
          "y = the smallest i for which x[.., i, ..] is the largest element along `axis`.",
      .operands = {"x is f32 or f64 of rank >= 1.",
                   "y is s32 and lacks that axis, or has extent 1 there with keep_dims."},
      .gradient = "None.",
      .saves = "Nothing.",
      .edge_cases = {"NaN is larger than any number.", "An axis without elements is refused."},
      .source = "Elementary."};

  int axis = -1;
  bool keep_dims = false;

  static constexpr auto fields() {
    return std::tuple{field("axis", &ArgMax::axis, "in [-rank, rank)"),
                      field("keep_dims", &ArgMax::keep_dims, "keep the axis with extent 1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x", .differentiable = false}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const ArgMax&) const = default;
};

}  // namespace qtape
