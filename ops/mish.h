// Mish: y = x tanh(log(1 + e^x)).
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Mish : Elementwise<Mish> {
  static constexpr std::string_view name = "Mish";
  static constexpr OpDocs docs{
      .summary = "x times the hyperbolic tangent of Softplus.",
      .formula = {"y = x tanh(log(1 + e^x)), computed as x n / (n + 2) with n = e^x (e^x + 2).",
                  "In e^x, x is limited to 40, above which y = x."},
      .operands = elementwise::operands,
      .gradient = "dx = dy (n / (n + 2) + 4 x e^x (1 + e^x) / (n + 2)^2); dy for x > 40.",
      .saves = "x.",
      .edge_cases = {"NaN stays NaN.", "Negative infinity gives NaN."},
      .source = "Misra, arXiv 1908.08681."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T operand) const {
    const double x = operand;
    const double n = part(x);
    return static_cast<T>(x * (n / (n + 2.0)));
  }
  template <class T>
  T slope(T operand) const {
    const double x = operand;
    const double e = math::exp(x > most ? most : x);
    const double n = e * (e + 2.0);
    const double inner = n / (n + 2.0) + x * (4.0 * e * (1.0 + e)) / ((n + 2.0) * (n + 2.0));
    return static_cast<T>(x > most ? 1.0 : inner);
  }
  bool operator==(const Mish&) const = default;

 private:
  static constexpr double most = 40.0;
  static double part(double x) {
    const double e = math::exp(x > most ? most : x);
    return e * (e + 2.0);
  }
};

}  // namespace qtape
