// The numeric core of quantization: scale -> code -> value. Training, conversion and tests all
// call it, so they cannot drift apart.
//
//   code(x)  = clamp(round(x / s), q_min, q_max)
//   value(q) = q * s
//   fake(x)  = value(code(x))
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "qtape/ops/core/enum_names.h"

namespace qtape {

/// Which codes exist for b bits.
enum class CodeRange : uint8_t {
  Narrow,   ///< [-q, q], q = 2^(b-1) - 1
  Full,     ///< [-2^(b-1), 2^(b-1) - 1]
  Unsigned  ///< [0, 2^b - 1]
};
template <>
inline constexpr auto enum_names<CodeRange> =
    std::array<std::string_view, 3>{"Narrow", "Full", "Unsigned"};

/// Where a quotient between two integers goes. All three are exact: no intermediate sum rounds.
enum class Rounding : uint8_t {
  HalfEven,  ///< ties to the even integer: ONNX, PyTorch
  HalfAway,  ///< ties away from zero: C's and Rust's round
  HalfUp     ///< floor(x / s + 1/2): hardware that adds half and drops bits
};
template <>
inline constexpr auto enum_names<Rounding> =
    std::array<std::string_view, 3>{"HalfEven", "HalfAway", "HalfUp"};

/// How x is divided by the scale.
enum class Division : uint8_t {
  Exact,      ///< x / s
  Reciprocal  ///< x * (1 / s): PyTorch; differs from Exact near half-grid points
};
template <>
inline constexpr auto enum_names<Division> =
    std::array<std::string_view, 2>{"Exact", "Reciprocal"};

/// What max|x| is divided by to give the scale.
enum class Denominator : uint8_t {
  QMax,     ///< q_max
  HalfSpan  ///< (q_max - q_min) / 2: 127.5 for 8 bits Full
};
template <>
inline constexpr auto enum_names<Denominator> =
    std::array<std::string_view, 2>{"QMax", "HalfSpan"};

/// When an element counts as inside the range.
enum class MaskRule : uint8_t {
  Code,  ///< q_min <= round(x / s) <= q_max, both ends in
  Value  ///< q_min s <= x <= q_max s
};
template <>
inline constexpr auto enum_names<MaskRule> = std::array<std::string_view, 2>{"Code", "Value"};

struct CodeLimits {
  int32_t q_min = 0;
  int32_t q_max = 0;
  bool operator==(const CodeLimits&) const = default;
};

/// The codes of `bits` (1..16; 1 only Unsigned) in `range`.
constexpr CodeLimits code_limits(int bits, CodeRange range) {
  const int32_t half = int32_t{1} << (bits - 1);
  switch (range) {
    case CodeRange::Full:
      return {-half, half - 1};
    case CodeRange::Unsigned:
      return {0, 2 * half - 1};
    case CodeRange::Narrow:
      break;
  }
  return {-(half - 1), half - 1};
}

/// The divisor that turns max|x| into a scale.
constexpr double scale_denominator(CodeLimits limits, Denominator denominator) {
  return denominator == Denominator::QMax ? limits.q_max : 0.5 * (limits.q_max - limits.q_min);
}

/// s = max(max|x| / denominator, floor), computed in T.
template <class T>
T scale_of(T max_abs, T denominator, T floor) {
  const T scale = max_abs / denominator;
  return scale > floor ? scale : floor;
}

/// Nearest integer of |v| <= 2^17; ties to even. Never gives -0. NaN stays NaN.
template <class T>
T round_half_even(T v) {
  // Adding 1.5 * 2^23 (2^52) leaves no bits for a fraction, so the addition itself rounds.
  constexpr T magic = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
  return (v + magic) - magic;
}

/// Nearest integer of |v| <= 2^17; ties away from zero, or up. Never gives -0. NaN stays NaN.
template <class T>
T round_half(T v, bool away) {
  const bool mirror = away && v < T(0);
  const T w = mirror ? -v : v;
  const T nearest = round_half_even(w);
  const T floor = nearest > w ? nearest - T(1) : nearest;
  const T rounded = w - floor >= T(0.5) ? floor + T(1) : floor;
  return (mirror ? -rounded : rounded) + T(0);
}

/// v clamped to [low - 1, high + 1]: enough to tell what lies outside, small enough that
/// rounding is exact whatever v is. Infinities go to their own end, NaN stays NaN.
template <class T>
T clamp_near(T v, T low, T high) {
  const T lifted = v < low - T(1) ? low - T(1) : v;
  return lifted > high + T(1) ? high + T(1) : lifted;
}

/// round(v), limited by clamp_near.
template <class T>
T round_near(T v, T low, T high, Rounding rounding) {
  const T bounded = clamp_near(v, low, high);
  return rounding == Rounding::HalfEven ? round_half_even(bounded)
                                        : round_half(bounded, rounding == Rounding::HalfAway);
}

/// `r` limited to the codes.
template <class T>
T clamp_code(T r, T q_min, T q_max) {
  const T lifted = r < q_min ? q_min : r;
  return lifted > q_max ? q_max : lifted;
}

/// The code of x as a floating-point integer; `inverse` is 1 / scale and used with Reciprocal.
template <class T>
T code_of(T x, T scale, T inverse, CodeLimits limits, Rounding rounding, Division division) {
  const T q_min = static_cast<T>(limits.q_min);
  const T q_max = static_cast<T>(limits.q_max);
  const T v = division == Division::Exact ? x / scale : x * inverse;
  return clamp_code(round_near(v, q_min, q_max, rounding), q_min, q_max);
}

}  // namespace qtape
