// FoldBias: the offset that a batch norm adds to each channel in evaluation.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct FoldBias {
  static constexpr std::string_view name = "FoldBias";
  static constexpr OpDocs docs{
      .summary =
          "The offset that a batch norm with running statistics adds to each channel, to be "
          "folded into a bias.",
      .formula = "y = beta - running_mean r, in double, rounded once.",
      .operands = {"beta is f32 or f64 [c]; running_mean, y and r, the output of FoldFactor, "
                   "have its type."},
      .gradient = {"dbeta = dy, dr = -running_mean dy.", "None for running_mean."},
      .saves = "One f64 for each channel.",
      .edge_cases = "None.",
      .source = "Jacob et al., arXiv 1712.05877, section 3.2."};

  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const {
    return {{.name = "beta"}, {.name = "running_mean", .differentiable = false}, {.name = "r"}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.forward_in_place = true, .backward_in_place = true}; }
  Footprint footprint(Inputs inputs) const {
    return {.saved = inputs[0].elements() * static_cast<int64_t>(sizeof(double))};
  }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const FoldBias&) const = default;
};

}  // namespace qtape
