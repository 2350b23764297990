// Atan: y = atan(x).
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Atan : Elementwise<Atan> {
  static constexpr std::string_view name = "Atan";
  static constexpr OpDocs docs{.summary = "The inverse tangent of each element, in radians.",
                               .formula = "y = atan(x), within -pi / 2 and pi / 2.",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy / (1 + x^2).",
                               .saves = "x.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::atan(x));
  }
  template <class T>
  T slope(T x) const {
    return T(1) / (T(1) + x * x);
  }
  bool operator==(const Atan&) const = default;
};

}  // namespace qtape
