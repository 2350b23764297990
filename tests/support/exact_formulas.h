// Formulas of docs/integer-program.md, written without code of the library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "qtape/core/requantization.h"

namespace qtape::test::formulas {

__extension__ using Wide = __int128;

/// Code of x on a grid of scale s, rounded half to even, minus the zero point z.
inline int64_t code(float x, float s, int64_t z, int64_t low, int64_t high) {
  const double q = std::nearbyint(double{x / s}) + static_cast<double>(z);
  const auto ends = std::pair(static_cast<double>(low), static_cast<double>(high));
  return static_cast<int64_t>(std::clamp(q, ends.first, ends.second)) - z;
}

/// Code of a bias on the grid of accumulators.
inline int64_t bias(float b, float s_x, float s_w) {
  const double q = double{b} / (double{s_x} * double{s_w});
  return static_cast<int64_t>(std::nearbyint(std::clamp(q, -2147483647.0, 2147483647.0)));
}

inline int64_t clamp32(Wide v) {
  return static_cast<int64_t>(std::clamp<Wide>(v, -(Wide{1} << 31), (Wide{1} << 31) - 1));
}
/// clamp32(half_even(v))
inline int64_t nearest(float v) {
  return static_cast<int64_t>(std::clamp(std::nearbyint(double{v}), -0x1p31, 0x1p31 - 1));
}

struct Multiplier {
  float ratio = 0;
  int64_t m = 0, r = 0;
  int sh = 0;

  Multiplier(double scale, double s_y) {
    const double quotient = scale / s_y;
    ratio = static_cast<float>(std::min(quotient, double{std::numeric_limits<float>::max()}));
    const double f = std::frexp(quotient, &sh);
    m = (static_cast<int64_t>(std::ldexp(f, 53)) + (1 << 21)) >> 22;
    if (m == int64_t{1} << 31) m = int64_t{1} << 30, ++sh;
    if (sh < -31) m = sh = 0;
    if (sh > 30) m = (int64_t{1} << 31) - 1, sh = 30;
    r = std::min<int64_t>((m + (1 << 15)) >> 16, (1 << 15) - 1);
  }
};

/// floor(acc m 2^shift + 1/2)
inline Wide scaled(int64_t acc, int64_t m, int shift) {
  const Wide product = Wide{acc} * m;
  if (shift >= 0) return product * (Wide{1} << shift);
  return (product + (Wide{1} << (-shift - 1))) >> -shift;
}
/// v / 2^n, rounded to nearest, halves away from 0.
inline Wide away(Wide v, int n) {
  const Wide magnitude = ((v < 0 ? -v : v) + ((Wide{1} << n) >> 1)) >> n;
  return v < 0 ? -magnitude : magnitude;
}

/// `of_16_bits`: acc is an accumulator of 16-bit codes.
inline int64_t requant(int64_t acc, double scale, double s_y, Requantization requantization,
                       bool of_16_bits = false) {
  const Multiplier of(scale, s_y);
  const auto x = static_cast<float>(acc);
  if (requantization == Requantization::FloatMultiply) return nearest(x * of.ratio);
  if (requantization == Requantization::OnnxQdq) {
    return nearest(x * static_cast<float>(scale) / static_cast<float>(s_y));
  }
  if (of_16_bits) return clamp32(scaled(acc, of.r, of.sh - 15));
  if (requantization == Requantization::SingleRounding) {
    return clamp32(scaled(acc, of.m, of.sh - 31));
  }
  return clamp32(away(scaled(acc, of.m, std::max(of.sh, 0) - 31), std::max(-of.sh, 0)));
}

/// p and q are codes minus their zero points. `of_16_bits`: some are stored in 16 bits.
inline int64_t add(int64_t p, int64_t q, double s_a, double s_b, double s_y,
                   Requantization requantization, bool of_16_bits) {
  const auto a = static_cast<float>(p), b = static_cast<float>(q);
  if (requantization == Requantization::FloatMultiply) {
    return nearest(a * Multiplier(s_a, s_y).ratio + b * Multiplier(s_b, s_y).ratio);
  }
  if (requantization == Requantization::OnnxQdq) {
    return nearest((a * static_cast<float>(s_a) + b * static_cast<float>(s_b)) /
                   static_cast<float>(s_y));
  }
  const int shift = of_16_bits ? 15 : 20;
  const double common = 2 * std::max(s_a, s_b);
  const int64_t u = requant(p * (int64_t{1} << shift), s_a / common, 1, requantization);
  const int64_t v = requant(q * (int64_t{1} << shift), s_b / common, 1, requantization);
  return requant(u + v, common / (s_y * std::ldexp(1.0, shift)), 1, requantization);
}

}  // namespace qtape::test::formulas
