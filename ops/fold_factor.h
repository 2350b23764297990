// FoldFactor: the factor by which a batch norm scales each channel in evaluation.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct FoldFactor {
  static constexpr std::string_view name = "FoldFactor";
  static constexpr OpDocs docs{
      .summary =
          "The factor by which a batch norm with running statistics scales each channel, to be "
          "folded into weights.",
      .formula = "r = gamma / sqrt(running_var + eps), in double, rounded once.",
      .operands = {"gamma is f32 or f64 [c]; running_var and r have its type."},
      .gradient = {"dgamma = dr / sqrt(running_var + eps).", "None for running_var."},
      .saves = "One f64 for each channel.",
      .edge_cases = "A variance of -eps or less gives infinity or NaN.",
      .source = "Jacob et al., arXiv 1712.05877, section 3.2."};

  double eps = 1e-5;

  static constexpr auto fields() {
    return std::tuple{field("eps", &FoldFactor::eps, "added to variances, above 0")};
  }
  std::vector<Slot> slots() const {
    return {{.name = "gamma"}, {.name = "running_var", .differentiable = false}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.forward_in_place = true, .backward_in_place = true}; }
  Footprint footprint(Inputs inputs) const {
    return {.saved = inputs[0].elements() * static_cast<int64_t>(sizeof(double))};
  }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const FoldFactor&) const = default;
};

}  // namespace qtape
