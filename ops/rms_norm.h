// RmsNorm: divides the last axis of each sample by its root mean square.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct RmsNorm {
  static constexpr std::string_view name = "RmsNorm";
  static constexpr OpDocs docs{
      .summary =
          "Divides the elements of the last axis by their root mean square, separately "
          "for each row.",
      .formula = {"y = gamma x / sqrt(q + eps), where q is the mean of x^2 over the n elements "
                  "of a row; in double, rounded once.",
                  "Sums are in double, in 16 interleaved partial sums."},
      .operands = {"x is f32 or f64 of rank >= 1; y has its type.",
                   "gamma is [n] of x's dtype, n being the last extent of x."},
      .gradient =
          {"With h = x / sqrt(q + eps) and g = dy gamma: dx = (g - h mean(g h)) / sqrt(q "
           "+ eps).",
           "dgamma = sum of dy h over all rows, in an order that depends only on the "
           "extents."},
      .saves = "One f64 for each row; backward also reads x and gamma.",
      .edge_cases = {"A NaN makes its row NaN.",
                     "Infinities give NaN, and 0 for the others of "
                     "their row."},
      .source = "Zhang and Sennrich, arXiv 1910.07467."};

  double eps = 1e-5;

  static constexpr auto fields() {
    return std::tuple{field("eps", &RmsNorm::eps, "added to mean squares, above 0")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}, {.name = "gamma"}}; }
  TensorType infer(Inputs inputs) const;
  bool mixes_samples(Inputs inputs) const { return inputs[0].shape.rank() == 1; }
  Keep keep() const {
    return {.operands = 0b11, .forward_in_place = true, .backward_in_place = true};
  }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const RmsNorm&) const = default;
};

}  // namespace qtape
