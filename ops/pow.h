// Pow: y = x^exponent for a constant exponent.
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Pow {
  static constexpr std::string_view name = "Pow";
  static constexpr OpDocs docs{
      .summary = "A constant power of each element.",
      .formula =
          {"y = x^exponent, in double and rounded once.",
           "Integers to +-64 are products of x, their negatives the reciprocal of these. "
           "0.5 is the square root, -0.5 its reciprocal.",
           "Any other exponent is e^(exponent log|x|); an odd integer has the sign of x."},
      .operands = elementwise::operands,
      .gradient = "dx = dy exponent x^(exponent - 1); 0 for the exponent 0.",
      .saves = "x.",
      .edge_cases = {"NaN stays NaN, except that the exponent 0 gives 1.",
                     "A negative x gives NaN unless the exponent is an integer.",
                     "0 to a negative exponent is an infinity, with the sign of x for odd "
                     "integers."},
      .source = "IEEE 754, pow; 0.5 as squareRoot."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  double exponent = 2;

  static constexpr auto fields() {
    return std::tuple{field("exponent", &Pow::exponent, "finite")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return elementwise::keep(slope_of); }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  template <class T>
  T value(T x) const {
    return static_cast<T>(power(x, exponent));
  }
  template <class T>
  T slope(T x) const {
    return exponent == 0.0 ? T(0) : static_cast<T>(exponent * power(x, exponent - 1.0));
  }
  /// x^p for a p that is neither an integer nor 0.5 nor -0.5.
  static double fractional_power(double x, double p) {
    const double y = math::exp(p * math::log(std::fabs(x)));
    return x < 0.0 ? std::numeric_limits<double>::quiet_NaN() : y;
  }
  bool operator==(const Pow&) const = default;

 private:
  static double product(double x, int n) {
    double result = 1.0;
    for (double square = x; n > 0; n /= 2, square *= square) {
      if (n % 2 == 1) result *= square;
    }
    return result;
  }
  static double power(double x, double p) {
    const double magnitude = std::fabs(p);
    const bool whole = std::floor(p) == p;
    if (whole && magnitude <= 64.0) {
      const double y = product(x, static_cast<int>(magnitude));
      return p < 0.0 ? 1.0 / y : y;
    }
    // The square root of -0 is -0.
    if (magnitude == 0.5) return p > 0.0 ? std::sqrt(x) : 1.0 / std::sqrt(x + 0.0);
    if (!whole) return fractional_power(x, p);
    const double y = math::exp(p * math::log(std::fabs(x)));
    // Doubles from 2^53 on are even.
    const bool odd = magnitude < 0x1p53 && std::floor(p / 2.0) * 2.0 != p;
    return odd ? std::copysign(y, x) : y;
  }
};

}  // namespace qtape
