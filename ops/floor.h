// Floor: y = floor(x).
#pragma once

#include <cmath>

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Floor : Elementwise<Floor> {
  static constexpr std::string_view name = "Floor";
  static constexpr OpDocs docs{.summary = "The largest integer that is not above each element.",
                               .formula = "y = floor(x).",
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
    return std::floor(x);
  }
  template <class T>
  T slope(T) const {
    return T(0);
  }
  bool operator==(const Floor&) const = default;
};

}  // namespace qtape
