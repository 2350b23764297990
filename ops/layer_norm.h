// LayerNorm: normalizes the last axis of each sample.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct LayerNorm {
  static constexpr std::string_view name = "LayerNorm";
  static constexpr OpDocs docs{
      .summary = "Normalizes the elements of the last axis, separately for each row.",
      .formula = {"y = gamma (x - m) / sqrt(v + eps) + beta, where m and v are the mean and "
                  "variance of the n elements of a row; in double, rounded once.",
                  "Sums are in double, in 16 interleaved partial sums; v is the mean of "
                  "(x - m)^2."},
      .operands = {"x is f32 or f64 of rank >= 1; y has its type.",
                   "gamma and beta are [n] of x's dtype, n being the last extent of x."},
      .gradient = {"With h = (x - m) / sqrt(v + eps) and g = dy gamma: dx = (g - mean g - h "
                   "mean(g h)) / sqrt(v + eps).",
                   "dgamma = sum of dy h and dbeta = sum of dy over all rows, in an order that "
                   "depends only on the extents."},
      .saves = "Two f64 for each row; backward also reads x and gamma.",
      .edge_cases = {"NaN and infinities make their row NaN.", "Rows of 1 element give beta."},
      .source = "Ba et al., arXiv 1607.06450."};

  double eps = 1e-5;

  static constexpr auto fields() {
    return std::tuple{field("eps", &LayerNorm::eps, "added to variances, above 0")};
  }
  std::vector<Slot> slots() const {
    return {{.name = "x"}, {.name = "gamma"}, {.name = "beta"}};
  }
  TensorType infer(Inputs inputs) const;
  bool mixes_samples(Inputs inputs) const { return inputs[0].shape.rank() == 1; }
  Keep keep() const {
    return {.operands = 0b11, .forward_in_place = true, .backward_in_place = true};
  }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const LayerNorm&) const = default;
};

}  // namespace qtape
