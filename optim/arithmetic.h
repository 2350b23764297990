// Powers and cosines in plain IEEE arithmetic: unlike in a libm, equal bits on every machine.
#pragma once

#include <cstdint>

namespace qtape::math {

/// `x` to the power of `n` >= 0 by repeated squaring, with a relative error below n / 2^52.
/// `power(x, 0)` is 1.
inline double power(double x, int64_t n) {
  double result = 1.0;
  double square = x;
  for (; n > 0; n >>= 1) {
    if ((n & 1) != 0) result *= square;
    square *= square;
  }
  return result;
}

namespace detail {

/// Sum over k of (-1)^k x^2k / ((first + 1) (first + 2) ... (first + 2k)): cos(x) for `first` =
/// 0 and sin(x) / x for `first` = 1. The terms after the first nine are below 2^-58 of the sum
/// for |x| <= pi / 4.
inline double alternating_series(double x, int first) {
  const double square = x * x;
  double sum = 1.0;
  for (int k = 8; k >= 1; --k) {
    const double divisor = (first + 2.0 * k - 1.0) * (first + 2.0 * k);
    sum = 1.0 - sum * square / divisor;
  }
  return sum;
}

}  // namespace detail

/// cos(pi u) for u in [0, 1], within 2^-52; exact at 0, 1/2 and 1. Folding u instead of pi u
/// loses no precision, because both differences below are exact.
inline double cos_pi(double u) {
  constexpr double pi = 0x1.921fb54442d18p1;
  const double folded = u > 0.5 ? 1.0 - u : u;
  const double sine = pi * (0.5 - folded);
  const double cosine = folded <= 0.25 ? detail::alternating_series(pi * folded, 0)
                                       : sine * detail::alternating_series(sine, 1);
  return u > 0.5 ? -cosine : cosine;
}

}  // namespace qtape::math
