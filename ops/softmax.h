// Softmax: normalized exponentials along an axis.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Softmax {
  static constexpr std::string_view name = "Softmax";
  static constexpr OpDocs docs{.summary = "Exponentials along an axis, divided by their sum.",
                               .formula = {"y = exp(x - m) / sum(exp(x - m)) along `axis`, "
                                           "where m is the largest x of the line.",
                                           "Computed in double, in a fixed order."},
                               .operands = "x is f32 or f64 of rank >= 1; y has its type.",
                               .gradient = "dx = y (dy - sum(dy y)).",
                               .saves = "y.",
                               .edge_cases = "NaN makes its line NaN.",
                               .source = "Elementary."};
  static constexpr Sign sign = Sign::NeverNegative;

  int axis = -1;

  static constexpr auto fields() {
    return std::tuple{field("axis", &Softmax::axis, "in [-rank, rank)")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  bool mixes_samples(Inputs inputs) const {
    return axis == 0 || axis + static_cast<int>(inputs[0].shape.rank()) == 0;
  }
  Keep keep() const {
    return {.output = true, .forward_in_place = true, .backward_in_place = true};
  }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Softmax&) const = default;
};

}  // namespace qtape
