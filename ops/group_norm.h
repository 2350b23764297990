// GroupNorm: normalizes groups of channels, separately for each sample.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct GroupNorm {
  static constexpr std::string_view name = "GroupNorm";
  static constexpr OpDocs docs{
      .summary =
          "Normalizes groups of consecutive channels over all positions, separately for "
          "each sample. With as many groups as channels it is an instance norm.",
      .formula = {"y = gamma (x - m) / sqrt(v + eps) + beta, where m and v are the mean and "
                  "variance of the elements of a sample in c / groups channels; in double, "
                  "rounded once.",
                  "Sums are in double: over positions for each channel, then over the channels "
                  "of a group; v is the mean of (x - m)^2."},
      .operands = {"x is f32 or f64 [n, ..., c] of rank >= 2; y has its type.",
                   "gamma and beta are [c] of x's dtype."},
      .gradient =
          {"With h = (x - m) / sqrt(v + eps), g = dy gamma and means over a group: dx = "
           "(g - mean g - h mean(g h)) / sqrt(v + eps).",
           "dgamma = sum of dy h and dbeta = sum of dy over samples and positions: over "
           "positions first, then over samples."},
      .saves = "Two f64 for each group of a sample; backward also reads x and gamma.",
      .edge_cases = {"NaN and infinities make their group NaN.",
                     "Groups of 1 element give beta."},
      .source = "Wu and He, arXiv 1803.08494; Ulyanov et al., arXiv 1607.08022."};

  int64_t groups = 1;
  double eps = 1e-5;

  static constexpr auto fields() {
    return std::tuple{field("groups", &GroupNorm::groups, "a divisor of the channels"),
                      field("eps", &GroupNorm::eps, "added to variances, above 0")};
  }
  std::vector<Slot> slots() const {
    return {{.name = "x"}, {.name = "gamma"}, {.name = "beta"}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const {
    return {.operands = 0b11, .forward_in_place = false, .backward_in_place = true};
  }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const GroupNorm&) const = default;
};

}  // namespace qtape
