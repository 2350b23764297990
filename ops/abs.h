// Abs: y = |x|.
#pragma once

#include <cmath>

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Abs : Elementwise<Abs> {
  static constexpr std::string_view name = "Abs";
  static constexpr OpDocs docs{.summary = "The magnitude of each element.",
                               .formula = "y = |x|.",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy where x > 0, -dy where x < 0, else 0.",
                               .saves = "x.",
                               .edge_cases = "NaN stays NaN, and its gradient is 0.",
                               .source = "Elementary."};
  static constexpr Sign sign = Sign::NeverNegative;
  static constexpr SlopeOf slope_of = SlopeOf::Operand;
  static constexpr bool piecewise = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return std::fabs(x);
  }
  template <class T>
  T slope(T x) const {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0);
  }
  bool operator==(const Abs&) const = default;
};

}  // namespace qtape
