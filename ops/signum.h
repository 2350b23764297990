// Signum: -1, 0 or 1.
#pragma once

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Signum : Elementwise<Signum> {
  static constexpr std::string_view name = "Signum";
  static constexpr OpDocs docs{.summary = "The sign of each element.",
                               .formula = "y = 1 where x > 0, -1 where x < 0, else x.",
                               .operands = elementwise::operands,
                               .gradient = "dx = 0.",
                               .saves = "nothing.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;
  static constexpr SlopeOf slope_of = SlopeOf::Nothing;
  static constexpr bool piecewise = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
  }
  template <class T>
  T slope(T) const {
    return T(0);
  }
  bool operator==(const Signum&) const = default;
};

}  // namespace qtape
