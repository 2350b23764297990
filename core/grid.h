// The quantization grid: code range, rounding of quotients, position of the zero point.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape {

/// Range of the codes of b bits.
enum class CodeRange : uint8_t {
  Narrow,   ///< [-q, q], q = 2^(b-1) - 1
  Full,     ///< [-2^(b-1), 2^(b-1) - 1]
  Unsigned  ///< [0, 2^b - 1]
};
template <>
inline constexpr auto enum_names<CodeRange> =
    std::array<std::string_view, 3>{"Narrow", "Full", "Unsigned"};

/// Rounding of a quotient to an integer. All three are exact: no intermediate sum is rounded.
enum class Rounding : uint8_t {
  HalfEven,  ///< ties to the even integer: ONNX, PyTorch
  HalfAway,  ///< ties away from zero: C's and Rust's round
  HalfUp     ///< floor(x / s + 1/2): hardware that adds half and drops bits
};
template <>
inline constexpr auto enum_names<Rounding> =
    std::array<std::string_view, 3>{"HalfEven", "HalfAway", "HalfUp"};

/// Division of x by the scale.
enum class Division : uint8_t {
  Exact,      ///< x / s
  Reciprocal  ///< x * (1 / s): PyTorch; differs from Exact near half-grid points
};
template <>
inline constexpr auto enum_names<Division> =
    std::array<std::string_view, 2>{"Exact", "Reciprocal"};

/// Position of code 0.
enum class Scheme : uint8_t {
  Symmetric,  ///< at the value 0: the zero point is 0
  Affine      ///< such that the codes span [min, max], which always contains 0
};
template <>
inline constexpr auto enum_names<Scheme> =
    std::array<std::string_view, 2>{"Symmetric", "Affine"};

/// Step at which the zero point is added.
enum class ZeroPoint : uint8_t {
  AfterRounding,  ///< round(x / s) + zp
  BeforeRounding  ///< round(x / s + zp), where the sum is rounded to T as well
};
template <>
inline constexpr auto enum_names<ZeroPoint> =
    std::array<std::string_view, 2>{"AfterRounding", "BeforeRounding"};

/// Divisor of max|x| that gives the scale.
enum class Denominator : uint8_t {
  QMax,     ///< q_max
  HalfSpan  ///< (q_max - q_min) / 2: 127.5 for 8 bits Full
};
template <>
inline constexpr auto enum_names<Denominator> =
    std::array<std::string_view, 2>{"QMax", "HalfSpan"};

/// Condition under which an element counts as inside the range.
enum class MaskRule : uint8_t {
  Code,  ///< q_min <= round(x / s) + zp <= q_max, both ends included
  Value  ///< (q_min - zp) s <= x <= (q_max - zp) s
};
template <>
inline constexpr auto enum_names<MaskRule> = std::array<std::string_view, 2>{"Code", "Value"};

/// Range of the codes: q_min <= code <= q_max.
struct CodeLimits {
  int32_t q_min = 0;
  int32_t q_max = 0;
  bool operator==(const CodeLimits&) const = default;
};

/// Limits of the codes of `bits` bits (1..16; 1 only with Unsigned) in `range`.
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

/// True if `v` is an integer within the limits. False for NaN.
template <class T>
bool is_code(T v, CodeLimits limits) {
  return v >= static_cast<T>(limits.q_min) && v <= static_cast<T>(limits.q_max) &&
         std::trunc(v) == v;
}

/// True if v is 2^n for an integer n.
inline bool is_power_of_two(double v) {
  int exponent = 0;
  return std::frexp(v, &exponent) == 0.5;
}

/// Quantization parameters other than scale and zero point.
struct Grid {
  CodeLimits limits = code_limits(8, CodeRange::Narrow);
  Scheme scheme = Scheme::Symmetric;
  Rounding rounding = Rounding::HalfEven;
  Division division = Division::Exact;
  ZeroPoint zero_point = ZeroPoint::AfterRounding;
  Denominator denominator = Denominator::QMax;
  double floor = 1e-12;       ///< smallest scale
  bool power_of_two = false;  ///< rounds scales up to a power of two
  bool operator==(const Grid&) const = default;
};

/// Scale (> 0) and zero point (an integer within the code limits; 0 for symmetric grids).
template <class T>
struct QParams {
  T scale = 1;
  T zero_point = 0;
  bool operator==(const QParams&) const = default;
};

/// Smallest and largest value of a set of data; min > max if it is empty.
template <class T>
struct ValueRange {
  T min = std::numeric_limits<T>::infinity();
  T max = -std::numeric_limits<T>::infinity();

  bool empty() const { return !(min <= max); }
  /// max|x|; 0 when empty.
  T max_abs() const {
    const T low = std::fabs(min);
    const T high = std::fabs(max);
    const T larger = low > high ? low : high;
    return min <= max ? larger : T(0);
  }
  void merge(const ValueRange& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
  }
  bool operator==(const ValueRange&) const = default;
};

}  // namespace qtape
