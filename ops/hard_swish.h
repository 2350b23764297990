// HardSwish: x times the ramp of HardSigmoid.
#pragma once

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct HardSwish : Elementwise<HardSwish> {
  static constexpr std::string_view name = "HardSwish";
  static constexpr OpDocs docs{
      .summary = "x times a ramp from 0 at x = -3 to 1 at x = 3.",
      .formula = "y = x (min(x + 3, 6) / 6), and 0 where x <= -3.",
      .operands = elementwise::operands,
      .gradient = "dx = dy (x / 3 + 1/2) where -3 <= x <= 3, 0 below and dy above.",
      .saves = "x.",
      .edge_cases = {"NaN stays NaN.", "-Infinity gives 0, where PyTorch gives NaN."},
      .source = "Howard et al., arXiv 1905.02244; gradient as PyTorch's hardswish."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;
  static constexpr bool piecewise = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    const T moved = x + T(3);
    const T scaled = x * ((moved > T(6) ? T(6) : moved) / T(6));
    return x <= T(-3) ? T(0) : scaled;
  }
  template <class T>
  T slope(T x) const {
    const T inner = x < T(-3) ? T(0) : x / T(3) + T(0.5);
    return x > T(3) ? T(1) : inner;
  }
  bool operator==(const HardSwish&) const = default;
};

}  // namespace qtape
