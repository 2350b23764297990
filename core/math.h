// exp, log, tanh, erf, sin, cos and atan in plain IEEE arithmetic: vectorisable, with equal
// bits on every machine.
//
// A libm selects code by processor, so its low-order bits differ. These functions compute
// in double: exp and log within 1 unit in the last place, erf within 2, atan, tanh and log1p
// within 3, expm1 within 4, and sin and cos within 2^-52 for |x| <= 2^20. Results in f32 are
// therefore correctly rounded except for rare near-ties. Beyond 2^20 sin and cos are within
// 2^-25, up to sin_end.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

/// Elementary functions with equal bits on every machine.
namespace qtape::math {

namespace detail {

inline constexpr double round_magic = 0x1.8p52;  // adding it rounds |x| < 2^51 to an integer

/// 2^n for an integral n in [-1022, 1023].
inline double power_of_two(double n) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(n + (round_magic + 1023)) << 52);
}

/// exp(r) - 1 for |r| <= 0.35: the Taylor polynomial of degree 14.
inline double expm1_reduced(double r) {
  double p = 1.0 / 87178291200.0;
  p = p * r + 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  return r + r * r * p;
}

struct Reduced {
  double n;  // integral
  double r;  // x = n ln 2 + r
};

inline Reduced reduce_by_ln2(double x) {
  constexpr double log2_e = 0x1.71547652b82fep0;
  constexpr double ln2_high = 0x1.62e42fee00000p-1;
  constexpr double ln2_low = 0x1.a39ef35793c76p-33;
  const double n = (x * log2_e + round_magic) - round_magic;
  return {n, (x - n * ln2_high) - n * ln2_low};
}

}  // namespace detail

/// e^x.
inline double exp(double x) {
  double bounded = x < -746.0 ? -746.0 : x;
  bounded = bounded > 710.0 ? 710.0 : bounded;
  const auto [n, r] = detail::reduce_by_ln2(bounded);
  // Two factors, because 2^n alone leaves the range of normal numbers at both ends.
  const double half = (n * 0.5 + detail::round_magic) - detail::round_magic;
  return (1.0 + detail::expm1_reduced(r)) * detail::power_of_two(half) *
         detail::power_of_two(n - half);
}

/// e^x - 1, without cancellation where x is near 0.
inline double expm1(double x) {
  const double magnitude = std::fabs(x);
  const double reduced = detail::expm1_reduced(magnitude <= 0.35 ? x : 0.0);
  return magnitude <= 0.35 ? reduced : exp(x) - 1.0;
}

/// Natural logarithm. log(0) is -infinity; the logarithm of a negative number is NaN.
inline double log(double x) {
  const double scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
  const auto bits = std::bit_cast<uint64_t>(scaled);
  // The exponent for which the mantissa lies in [sqrt(1/2), sqrt(2)).
  const uint64_t offset = bits - 0x3fe6a09e667f3bcdULL;
  const auto exponent =
      static_cast<double>(static_cast<int32_t>(static_cast<int64_t>(offset) >> 52));
  const double m = std::bit_cast<double>(bits - (offset & 0xfff0000000000000ULL));
  const double n = exponent - (x < 0x1p-1022 ? 54.0 : 0.0);
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 1.0 / 23.0;
  p = p * z + 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  // log(1 + f) = f - s f + 2 s^3 p, which keeps the leading term exact.
  const double tail = s * (f - 2.0 * z * p);
  const double result = n * 0x1.62e42fee00000p-1 + (f - (tail - n * 0x1.a39ef35793c76p-33));
  const double infinity = std::numeric_limits<double>::infinity();
  const double bounded = x == infinity ? infinity : result;
  const double positive = x > 0.0 ? bounded : std::numeric_limits<double>::quiet_NaN();
  return x == 0.0 ? -infinity : positive;
}

/// log(1 + x) for x >= 0: the logarithm of the rounded sum, corrected by the rounding.
inline double log1p(double x) {
  const double sum = 1.0 + x;
  const double infinity = std::numeric_limits<double>::infinity();
  return log(sum) - (sum < infinity ? ((sum - 1.0) - x) / sum : 0.0);
}

/// Hyperbolic tangent.
inline double tanh(double x) {
  const double magnitude = std::fabs(x);
  const double y = magnitude > 22.0 ? -44.0 : -2.0 * magnitude;
  const auto [n, r] = detail::reduce_by_ln2(y);
  const double scale = detail::power_of_two(n);
  const double expm1 = scale * detail::expm1_reduced(r) + (scale - 1.0);
  const double result = std::copysign(-expm1 / (2.0 + expm1), x);
  return x == x ? result : x;
}

/// Logistic function 1 / (1 + e^-x).
inline double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

namespace detail {

/// Returns z / 3 - z^2 / 5 + z^3 / 7 ..., with one term for each N; N must be 0, 1, ...
template <int... N>
double alternating(double z, std::integer_sequence<int, N...>) {
  double p = 0.0;
  ((p = (1.0 / (2.0 * (int(sizeof...(N)) - N) + 1.0) - p) * z), ...);
  return p;
}

/// Returns the value of the polynomial with these coefficients, highest power first.
template <class... C>
double polynomial(double x, double first, C... others) {
  double p = first;
  ((p = p * x + others), ...);
  return p;
}

/// erf(x) / x for z = x^2 <= 1, by interpolation at Chebyshev nodes: within 1e-17.
inline double erf_near_0(double z) {
  return polynomial(z, -0x1.ac9585a44fe29p-31, 0x1.d76af6ca49787p-27, -0x1.5c131500d3f88p-23,
                    0x1.b981d78881a5dp-20, -0x1.f4ca838adb73bp-17, 0x1.f9a2be4f731a1p-14,
                    -0x1.c02db0665e53dp-11, 0x1.565bccfa44156p-8, -0x1.b82ce31203772p-6,
                    0x1.ce2f21a040f66p-4, -0x1.812746b0379c1p-2, 0x1.20dd750429b6dp+0);
}

/// e^(x^2) (1 - erf(x)) for 1 <= x <= 6, by interpolation of t = (x - 3) / (x + 3) at Chebyshev
/// nodes: within 1e-17 / e^(-x^2).
inline double erfc_scaled(double t) {
  return polynomial(t, 0x1.57a5fe2b9b75ep-20, 0x1.0f9a79cee3e31p-19, -0x1.0cb4611cc29f6p-17,
                    -0x1.af2329d757293p-17, 0x1.0cb1db32e0c9fp-14, 0x1.7b9fc8eb630e9p-15,
                    -0x1.39085a31b18abp-11, 0x1.73101ea8fe252p-11, 0x1.17c838fea5806p-8,
                    -0x1.8fa58eb5bd68fp-6, 0x1.258b13b0139fep-4, -0x1.336ffbef08cbbp-3,
                    0x1.f6ff20410599bp-3, -0x1.4e102b9cf8512p-2, 0x1.6e9827d229d2dp-3);
}

}  // namespace detail

/// Error function. erf(6) is the double 1.
inline double erf(double x) {
  const double magnitude = std::fabs(x) < 6.0 ? std::fabs(x) : 6.0;
  const double square = magnitude * magnitude;
  const double near_0 = magnitude * detail::erf_near_0(magnitude < 1.0 ? square : 1.0);
  const double other =
      exp(-square) * detail::erfc_scaled((magnitude - 3.0) / (magnitude + 3.0));
  const double result = std::copysign(magnitude < 1.0 ? near_0 : 1.0 - other, x);
  return x == x ? result : x;
}

/// Largest operand of sin and cos: beyond it the f32 numbers are 8 or more apart.
inline constexpr double sin_end = 0x1p26;

namespace detail {

/// Returns the sine of x plus n quarter turns.
inline double sin_turned(double x, double n) {
  const bool within = std::fabs(x) <= sin_end;
  const double bounded = within ? x : 0.0;
  const double turns = (bounded * 0x1.45f306dc9c883p-1 + round_magic) - round_magic;
  // pi / 2 in three parts whose multiples below 2^20 are exact.
  const double r = ((bounded - turns * 0x1.921fb54400000p0) - turns * 0x1.0b4611a600000p-34) -
                   turns * 0x1.3198a2e037073p-69;
  const double z = r * r;
  double odd = -1.0 / 1307674368000.0;
  odd = odd * z + 1.0 / 6227020800.0;
  odd = odd * z - 1.0 / 39916800.0;
  odd = odd * z + 1.0 / 362880.0;
  odd = odd * z - 1.0 / 5040.0;
  odd = odd * z + 1.0 / 120.0;
  odd = odd * z - 1.0 / 6.0;
  double even = 1.0 / 20922789888000.0;
  even = even * z - 1.0 / 87178291200.0;
  even = even * z + 1.0 / 479001600.0;
  even = even * z - 1.0 / 3628800.0;
  even = even * z + 1.0 / 40320.0;
  even = even * z - 1.0 / 720.0;
  even = even * z + 1.0 / 24.0;
  even = even * z - 0.5;
  const uint64_t quadrant = std::bit_cast<uint64_t>(turns + n + round_magic);
  const double size = (quadrant & 1) != 0 ? 1.0 + z * even : r + r * (z * odd);
  const double result = (quadrant & 2) != 0 ? -size : size;
  return within ? result : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace detail

/// Sine of x radians. NaN beyond sin_end.
inline double sin(double x) { return detail::sin_turned(x, 0.0); }

/// Cosine of x radians. NaN beyond sin_end.
inline double cos(double x) { return detail::sin_turned(x, 1.0); }

/// Inverse tangent, in radians: the series about 0 after two reductions to |t| <= tan(pi / 8).
inline double atan(double x) {
  const double magnitude = std::fabs(x);
  const bool large = magnitude > 1.0;
  const double t = large ? 1.0 / magnitude : magnitude;
  const bool upper = t > 0.4142135623730950;
  const double s = upper ? (t - 1.0) / (t + 1.0) : t;
  const double z = s * s;
  const double p = detail::alternating(z, std::make_integer_sequence<int, 20>());
  const double angle = s - s * p;
  const double within = upper ? 0x1.921fb54442d18p-1 + angle : angle;
  const double size = large ? 0x1.921fb54442d18p0 - within : within;
  const double result = std::copysign(size, x);
  return x == x ? result : x;
}

}  // namespace qtape::math
