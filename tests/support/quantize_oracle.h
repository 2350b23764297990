// The formulas of docs/quantization.md written out once more, in long double and without any
// code of the library: what FakeQuantize must equal.
#pragma once

#include <cmath>

#include "qtape/ops/fake_quantize.h"

namespace qtape::test {

/// A quotient rounded to an integer exactly.
inline long double oracle_round(long double v, Rounding rounding) {
  const long double low = std::floor(v);
  const long double part = v - low;
  if (part != 0.5L) return part < 0.5L ? low : low + 1;
  if (rounding == Rounding::HalfUp) return low + 1;
  if (rounding == Rounding::HalfAway) return v < 0 ? low : low + 1;
  return std::fmod(low, 2.0L) == 0 ? low : low + 1;
}

/// x / s as T computes it: one exactly rounded division, or a product with the rounded
/// reciprocal.
template <class T>
T oracle_quotient(T x, T scale, Division division) {
  if (division == Division::Exact) return static_cast<T>(x / scale);
  const T inverse = static_cast<T>(T(1) / scale);
  return static_cast<T>(x * inverse);
}

/// clamp(round(x / s), q_min, q_max) s, for one element.
template <class T>
T oracle_fake(T x, T scale, const FakeQuantize& op) {
  if (std::isnan(x)) return x;
  const auto [q_min, q_max] = op.limits();
  const T v = oracle_quotient(x, scale, op.division);
  long double code = std::isinf(v) ? static_cast<long double>(v) : oracle_round(v, op.rounding);
  if (code < q_min) code = q_min;
  if (code > q_max) code = q_max;
  return static_cast<T>(static_cast<T>(code) * scale) + T(0);
}

/// Whether x counts as inside the range.
template <class T>
bool oracle_inside(T x, T scale, const FakeQuantize& op) {
  if (std::isnan(x)) return false;
  const auto [q_min, q_max] = op.limits();
  const bool open_above = std::holds_alternative<PerBatch>(op.scale_mode);
  if (op.mask == MaskRule::Value) {
    return x >= static_cast<T>(q_min) * scale &&
           (open_above || x <= static_cast<T>(q_max) * scale);
  }
  const T v = oracle_quotient(x, scale, op.division);
  if (std::isinf(v)) return v > 0 && open_above;
  const long double code = oracle_round(v, op.rounding);
  return code >= q_min && (open_above || code <= q_max);
}

/// max(max|x| / denominator, floor) over finite x, in T.
template <class T>
T oracle_scale(T max_abs, const FakeQuantize& op) {
  const auto [q_min, q_max] = op.limits();
  const T divisor = op.denominator == Denominator::QMax ? static_cast<T>(q_max)
                                                        : static_cast<T>((q_max - q_min) / 2.0);
  return std::max(static_cast<T>(max_abs / divisor), static_cast<T>(op.floor));
}

}  // namespace qtape::test
