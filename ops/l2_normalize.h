// L2Normalize: divides the last axis of each sample by its Euclidean norm.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct L2Normalize {
  static constexpr std::string_view name = "L2Normalize";
  static constexpr OpDocs docs{
      .summary =
          "Divides the elements of the last axis by their Euclidean norm, separately for "
          "each row.",
      .formula =
          {"y = x / max(|x|, eps), where |x| is the root of the sum of x^2 over a row; in "
           "double, rounded once.",
           "Sums are in double, in 16 interleaved partial sums."},
      .operands = {"x is f32 or f64 of rank >= 1; y has its type."},
      .gradient = {"With h = x / |x|: dx = (dy - h sum(dy h)) / |x|, and dy / eps where |x| <= "
                   "eps."},
      .saves = "One f64 for each row; backward also reads x.",
      .edge_cases = {"A NaN makes its row NaN.",
                     "Infinities give NaN, and 0 for the others of "
                     "their row.",
                     "Rows of zeros give 0."},
      .source = "torch.nn.functional.normalize of PyTorch."};

  double eps = 1e-12;

  static constexpr auto fields() {
    return std::tuple{field("eps", &L2Normalize::eps, "least divisor, above 0")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  bool mixes_samples(Inputs inputs) const { return inputs[0].shape.rank() == 1; }
  Keep keep() const {
    return {.operands = 0b1, .forward_in_place = true, .backward_in_place = true};
  }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const L2Normalize&) const = default;
};

}  // namespace qtape
