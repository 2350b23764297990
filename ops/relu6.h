// Relu6: y = min(max(x, 0), 6).
#pragma once

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Relu6 : Elementwise<Relu6> {
  static constexpr std::string_view name = "Relu6";
  static constexpr OpDocs docs{.summary = "Clamps each element to [0, 6].",
                               .formula = "y = min(max(x, 0), 6).",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy where 0 < y < 6, else 0.",
                               .saves = "y.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "PyTorch's relu6."};
  static constexpr Sign sign = Sign::NeverNegative;
  static constexpr SlopeOf slope_of = SlopeOf::Output;
  static constexpr bool piecewise = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    const T lifted = x < T(0) ? T(0) : x;
    return lifted > T(6) ? T(6) : lifted;
  }
  template <class T>
  T slope(T y) const {
    return y > T(0) && y < T(6) ? T(1) : T(0);
  }
  ValueLimits limits() const { return {0, 6}; }
  bool operator==(const Relu6&) const = default;
};

}  // namespace qtape
