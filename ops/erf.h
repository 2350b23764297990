// Erf: the error function.
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Erf : Elementwise<Erf> {
  static constexpr std::string_view name = "Erf";
  static constexpr OpDocs docs{
      .summary = "The error function of each element.",
      .formula = "y = 2 / sqrt(pi) times the integral of e^-t^2 from 0 to x.",
      .operands = elementwise::operands,
      .gradient = "dx = dy 2 / sqrt(pi) e^-x^2.",
      .saves = "x.",
      .edge_cases = "NaN stays NaN.",
      .source = "Elementary."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::erf(x));
  }
  template <class T>
  T slope(T operand) const {
    const double x = operand;
    return static_cast<T>(two_over_sqrt_pi * math::exp(-x * x));
  }
  bool operator==(const Erf&) const = default;

 private:
  static constexpr double two_over_sqrt_pi = 0x1.20dd750429b6dp0;
};

}  // namespace qtape
