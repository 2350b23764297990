// Numeric core of quantization: range -> scale and zero point -> code -> value. Shared by
// training, conversion and tests, so that they cannot diverge.
//
//   code(x)  = clamp(round(x / s) + zp, q_min, q_max)
//   value(q) = (q - zp) * s
//   fake(x)  = value(code(x))
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "qtape/core/grid.h"

namespace qtape::kernels {

/// Divisor of max|x| that gives the scale.
constexpr double scale_denominator(CodeLimits limits, Denominator denominator) {
  return denominator == Denominator::QMax ? limits.q_max : 0.5 * (limits.q_max - limits.q_min);
}

/// Rounds to the nearest integer, ties to even, for |v| <= 2^17 in float and |v| <= 2^51 in
/// double. Never returns -0. NaN stays NaN.
template <class T>
T round_half_even(T v) {
  // Adding 1.5 * 2^23 (2^52) leaves no fraction bits, so the addition itself rounds.
  constexpr T magic = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
  return (v + magic) - magic;
}

/// Rounds |v| <= 2^17 to the nearest integer, ties away from zero or up. Never returns -0. NaN
/// stays NaN.
template <class T>
T round_half(T v, bool away) {
  const bool mirror = away && v < T(0);
  const T w = mirror ? -v : v;
  const T nearest = round_half_even(w);
  const T floor = nearest > w ? nearest - T(1) : nearest;
  const T rounded = w - floor >= T(0.5) ? floor + T(1) : floor;
  return (mirror ? -rounded : rounded) + T(0);
}

/// Clamps v to [low - 1, high + 1]: wide enough to detect values outside [low, high], and
/// narrow enough that rounding is exact. Infinities go to the end on their side; NaN stays NaN.
template <class T>
T clamp_near(T v, T low, T high) {
  const T lifted = v < low - T(1) ? low - T(1) : v;
  return lifted > high + T(1) ? high + T(1) : lifted;
}

/// Rounds clamp_near(v, low, high).
template <class T>
T round_near(T v, T low, T high, Rounding rounding) {
  const T bounded = clamp_near(v, low, high);
  return rounding == Rounding::HalfEven ? round_half_even(bounded)
                                        : round_half(bounded, rounding == Rounding::HalfAway);
}

/// Clamps `r` to [q_min, q_max].
template <class T>
T clamp_code(T r, T q_min, T q_max) {
  const T lifted = r < q_min ? q_min : r;
  return lifted > q_max ? q_max : lifted;
}

/// Smallest power of two that is at least `scale`, a normal number. If the span of all codes
/// would overflow T, a smaller power of two whose span is finite.
template <class T>
T next_power_of_two(T scale, CodeLimits limits) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits mantissa = (Bits{1} << (std::numeric_limits<T>::digits - 1)) - 1;
  const T below = std::bit_cast<T>(std::bit_cast<Bits>(scale) & ~mantissa);
  const T above = below < scale ? below * T(2) : below;
  const T span = static_cast<T>(limits.q_max - limits.q_min);
  constexpr T largest = std::numeric_limits<T>::max();
  const T fitting = below * span <= largest ? below : below / T(2);
  return above * span <= largest ? above : fitting;
}

/// Scale in use for a given or measured `scale`: max(scale, floor) in T, rounded up to a power
/// of two if the grid requires it.
template <class T>
T scale_in_use(T scale, const Grid& grid) {
  const T floor = static_cast<T>(grid.floor);
  const T raised = scale > floor ? scale : floor;
  return grid.power_of_two ? next_power_of_two(raised, grid.limits) : raised;
}

/// Scale and zero point for data in `range`, in T.
/// Symmetric: s = max(max|x| / denominator, floor), zp = 0.
/// Affine, with the range extended to contain 0: s = max((max - min) / (q_max - q_min), floor)
/// and zp = q_min - round(min / s), clamped to the codes. If max - min overflows:
/// s = max(max / (q_max - q_min) - min / (q_max - q_min), floor).
/// Scales are powers of two if the grid requires it (scale_in_use).
template <class T>
QParams<T> qparams_of(const ValueRange<T>& range, const Grid& grid) {
  const auto [q_min, q_max] = grid.limits;
  if (grid.scheme == Scheme::Symmetric) {
    const T denominator = static_cast<T>(scale_denominator(grid.limits, grid.denominator));
    return {scale_in_use(range.max_abs() / denominator, grid), T(0)};
  }
  // No branches, so that loops vectorise.
  const bool some = range.min <= range.max;
  const T min = (some & (range.min < T(0))) ? range.min : T(0);
  const T max = (some & (range.max > T(0))) ? range.max : T(0);
  const T span = static_cast<T>(q_max - q_min);
  const T whole = (max - min) / span;
  const T halves = max / span - min / span;
  const T fitting = whole <= std::numeric_limits<T>::max() ? whole : halves;
  const T scale = scale_in_use(fitting, grid);
  const T steps = round_near(min / scale, -span, T(0), grid.rounding);
  return {scale, clamp_code(static_cast<T>(q_min) - steps, static_cast<T>(q_min),
                            static_cast<T>(q_max))};
}

/// Code of x, as a floating-point integer, before it is clamped to [q_min, q_max]. Clamped to
/// [q_min - 1, q_max + 1], which shows whether x lies outside the range.
template <class T>
T nearest_code(T x, const QParams<T>& q, const Grid& grid) {
  const T quotient = grid.division == Division::Exact ? x / q.scale : x * (T(1) / q.scale);
  const bool before = grid.zero_point == ZeroPoint::BeforeRounding;
  const T shift = before ? q.zero_point : T(0);
  const T offset = before ? T(0) : q.zero_point;
  const T low = static_cast<T>(grid.limits.q_min) - offset;
  const T high = static_cast<T>(grid.limits.q_max) - offset;
  return round_near(quotient + shift, low, high, grid.rounding) + offset;
}

/// Code of x as a floating-point integer; NaN for NaN.
template <class T>
T code_of(T x, const QParams<T>& q, const Grid& grid) {
  return clamp_code(nearest_code(x, q, grid), static_cast<T>(grid.limits.q_min),
                    static_cast<T>(grid.limits.q_max));
}

/// Range of the codes of values limited to [low, high], where infinity means no limit.
template <class T>
CodeLimits clamped_limits(double low, double high, const QParams<T>& q, const Grid& grid) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  CodeLimits limits = grid.limits;
  if (low > -inf) limits.q_min = static_cast<int32_t>(code_of(static_cast<T>(low), q, grid));
  if (high < inf) limits.q_max = static_cast<int32_t>(code_of(static_cast<T>(high), q, grid));
  return limits;
}

/// Value of a code; only the product is rounded.
template <class T>
T value_of(T code, const QParams<T>& q) {
  return (code - q.zero_point) * q.scale;
}

/// Largest magnitude of the code of a bias, which is stored as s32.
inline constexpr double largest_bias_code = 2147483647.0;

/// Code of a bias b on the grid of the accumulators to which it is added (products of codes
/// with scales s_x and s_w, both > 0): half_even(b / (s_x s_w)) in double, clamped to
/// +-largest_bias_code. Infinities go to the end on their side; NaN stays NaN. Used by training
/// and conversion.
template <class T>
double bias_code(T b, T s_x, T s_w) {
  // 0 has code 0 even if the product of two scales in f64 underflows.
  if (b == T(0)) return 0;
  const double quotient = double(b) / (double(s_x) * double(s_w));
  return round_half_even(clamp_code(quotient, -largest_bias_code, largest_bias_code));
}

/// Value of the code of a bias: code s_x s_w in double, rounded to T.
template <class T>
T bias_value(double code, T s_x, T s_w) {
  // Code 0 has value 0 even if the product of two scales in f64 overflows.
  if (code == 0) return T(0);
  return static_cast<T>(code * (double(s_x) * double(s_w)));
}

}  // namespace qtape::kernels
