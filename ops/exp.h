// Exp: y = e^x.
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Exp : Elementwise<Exp> {
  static constexpr std::string_view name = "Exp";
  static constexpr OpDocs docs{.summary = "The exponential of each element.",
                               .formula = "y = e^x.",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy y.",
                               .saves = "y.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "Elementary."};
  static constexpr Sign sign = Sign::NeverNegative;
  static constexpr SlopeOf slope_of = SlopeOf::Output;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::exp(x));
  }
  template <class T>
  T slope(T y) const {
    return y;
  }
  bool operator==(const Exp&) const = default;
};

}  // namespace qtape
