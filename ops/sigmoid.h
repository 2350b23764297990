// Sigmoid: y = 1 / (1 + e^-x).
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Sigmoid : Elementwise<Sigmoid> {
  static constexpr std::string_view name = "Sigmoid";
  static constexpr OpDocs docs{.summary = "The logistic function of each element.",
                               .formula = "y = 1 / (1 + e^-x).",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy y (1 - y).",
                               .saves = "y.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "Elementary."};
  static constexpr Sign sign = Sign::NeverNegative;
  static constexpr SlopeOf slope_of = SlopeOf::Output;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::sigmoid(x));
  }
  template <class T>
  T slope(T y) const {
    return y * (T(1) - y);
  }
  bool operator==(const Sigmoid&) const = default;
};

}  // namespace qtape
