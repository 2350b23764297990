// Round: the nearest integer, ties to even.
#pragma once

#include <cmath>

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Round : Elementwise<Round> {
  static constexpr std::string_view name = "Round";
  static constexpr OpDocs docs{.summary = "Each element rounded to the nearest integer.",
                               .formula = "y = round(x), ties to the even integer.",
                               .operands = elementwise::operands,
                               .gradient = "dx = 0.",
                               .saves = "nothing.",
                               .edge_cases = "NaN and infinities are unchanged.",
                               .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;
  static constexpr SlopeOf slope_of = SlopeOf::Nothing;
  static constexpr bool piecewise = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return std::nearbyint(x);
  }
  template <class T>
  T slope(T) const {
    return T(0);
  }
  bool operator==(const Round&) const = default;
};

}  // namespace qtape
