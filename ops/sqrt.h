// Sqrt: y = sqrt(x).
#pragma once

#include <cmath>

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Sqrt : Elementwise<Sqrt> {
  static constexpr std::string_view name = "Sqrt";
  static constexpr OpDocs docs{.summary = "The square root of each element.",
                               .formula = "y = sqrt(x).",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy / (2 y).",
                               .saves = "y.",
                               .edge_cases = "NaN below 0.",
                               .source = "Elementary."};
  static constexpr SlopeOf slope_of = SlopeOf::Output;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return std::sqrt(x);
  }
  template <class T>
  T slope(T y) const {
    return T(0.5) / y;
  }
  bool operator==(const Sqrt&) const = default;
};

}  // namespace qtape
