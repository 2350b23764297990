// HardSigmoid: a ramp from 0 at -3 to 1 at 3.
#pragma once

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct HardSigmoid : Elementwise<HardSigmoid> {
  static constexpr std::string_view name = "HardSigmoid";
  static constexpr OpDocs docs{.summary = "A ramp from 0 at x = -3 to 1 at x = 3.",
                               .formula = "y = min(max(x + 3, 0), 6) / 6.",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy / 6 where -3 < x < 3, else 0.",
                               .saves = "x.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "PyTorch's hardsigmoid."};
  static constexpr Sign sign = Sign::NeverNegative;
  static constexpr SlopeOf slope_of = SlopeOf::Operand;
  static constexpr bool piecewise = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    const T moved = x + T(3);
    const T lifted = moved < T(0) ? T(0) : moved;
    return (lifted > T(6) ? T(6) : lifted) / T(6);
  }
  template <class T>
  T slope(T x) const {
    return x > T(-3) && x < T(3) ? T(1) / T(6) : T(0);
  }
  bool operator==(const HardSigmoid&) const = default;
};

}  // namespace qtape
