// FakeQuantizeBias: rounds a bias to the grid of the accumulators to which it is added.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct FakeQuantizeBias {
  static constexpr std::string_view name = "FakeQuantizeBias";
  static constexpr OpDocs docs{
      .summary = "Rounds a bias to the integer grid of the accumulators of x times w.",
      .formula =
          "y[c] = q s_x s_w[c] with q = half_even(b[c] / (s_x s_w[c])) in double, clamped to "
          "+-(2^31 - 1).",
      .operands = {"b is f32 or f64 [n]; y has its type.",
                   "x is the output of a quantizer with one scale s_x, w that of a quantizer "
                   "with n scales or one.",
                   "Only the scales used in their last forward are read. They must have b's "
                   "dtype (those of f16 and bf16 are f32)."},
      .gradient = {"db = dy.", "None for x and w."},
      .saves = "Nothing.",
      .edge_cases = {"Infinities go to the end on their side, NaN stays NaN.",
                     "Disabled, in a mode that does not quantize, or where x or w was not "
                     "quantized: y = b."},
      .source = "Jacob et al., arXiv 1712.05877, section 2.4."};

  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const {
    return {{.name = "b"},
            {.name = "x", .differentiable = false, .scales = Scales::One},
            {.name = "w", .differentiable = false, .scales = Scales::OneOrEach}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.forward_in_place = true, .backward_in_place = true}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const FakeQuantizeBias&) const = default;
};

}  // namespace qtape
