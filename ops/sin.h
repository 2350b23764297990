// Sin: y = sin(x).
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Sin : Elementwise<Sin> {
  static constexpr std::string_view name = "Sin";
  static constexpr OpDocs docs{.summary = "The sine of each element, in radians.",
                               .formula = "y = sin(x).",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy cos(x).",
                               .saves = "x.",
                               .edge_cases = {"NaN where x is NaN or |x| > 2^26.",
                                              "Within 2^-25 where |x| > 2^20, in f64 too."},
                               .source = "Elementary."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::sin(x));
  }
  template <class T>
  T slope(T x) const {
    return static_cast<T>(math::cos(x));
  }
  bool operator==(const Sin&) const = default;
};

}  // namespace qtape
