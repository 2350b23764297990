// Relu: y = max(x, 0).
#pragma once

#include <limits>

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Relu : Elementwise<Relu> {
  static constexpr std::string_view name = "Relu";
  static constexpr OpDocs docs{.summary = "Sets negative elements to 0.",
                               .formula = "y = max(x, 0).",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy where y > 0, else 0.",
                               .saves = "y.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "Elementary."};
  static constexpr Sign sign = Sign::NeverNegative;
  static constexpr SlopeOf slope_of = SlopeOf::Output;
  static constexpr bool piecewise = true;
  static constexpr bool gate = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  T slope(T y) const {
    return y > T(0) ? T(1) : T(0);
  }
  ValueLimits limits() const { return {0, std::numeric_limits<double>::infinity()}; }
  bool operator==(const Relu&) const = default;
};

}  // namespace qtape
