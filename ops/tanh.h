// Tanh: y = tanh(x).
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Tanh : Elementwise<Tanh> {
  static constexpr std::string_view name = "Tanh";
  static constexpr OpDocs docs{.summary = "The hyperbolic tangent of each element.",
                               .formula = "y = tanh(x).",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy (1 - y^2).",
                               .saves = "y.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "Elementary."};
  static constexpr SlopeOf slope_of = SlopeOf::Output;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::tanh(x));
  }
  template <class T>
  T slope(T y) const {
    return T(1) - y * y;
  }
  bool operator==(const Tanh&) const = default;
};

}  // namespace qtape
