// Independent implementation of the formulas in docs/quantization.md, in long double and
// without any code of the library, with which FakeQuantize must agree.
#pragma once

#include <cmath>

#include "qtape/ops/fake_quantize.h"

namespace qtape::test {

/// Returns the smallest and the largest code.
inline CodeLimits oracle_limits(int bits, CodeRange range) {
  const auto count = static_cast<int32_t>(std::exp2(bits));
  if (range == CodeRange::Unsigned) return {0, count - 1};
  return {range == CodeRange::Full ? -count / 2 : 1 - count / 2, count / 2 - 1};
}

/// Rounds a quotient to an integer, exactly.
inline long double oracle_round(long double v, Rounding rounding) {
  const long double low = std::floor(v);
  const long double part = v - low;
  if (part != 0.5L) return part < 0.5L ? low : low + 1;
  if (rounding == Rounding::HalfUp) return low + 1;
  if (rounding == Rounding::HalfAway) return v < 0 ? low : low + 1;
  return std::fmod(low, 2.0L) == 0 ? low : low + 1;
}

/// Returns x / s as computed in T: by one correctly rounded division, or by a product with the
/// rounded reciprocal.
template <class T>
T oracle_quotient(T x, T scale, Division division) {
  if (division == Division::Exact) return static_cast<T>(x / scale);
  const T inverse = static_cast<T>(T(1) / scale);
  return static_cast<T>(x * inverse);
}

/// Returns the code of x before clamping. The only operation on the quotient that rounds is the
/// sum of ZeroPoint::BeforeRounding.
template <class T>
long double oracle_nearest(T x, QParams<T> q, const FakeQuantize& op) {
  const T v = oracle_quotient(x, q.scale, op.division);
  if (std::isinf(v)) return static_cast<long double>(v);
  if (op.zero_point == ZeroPoint::BeforeRounding) {
    return oracle_round(static_cast<T>(v + q.zero_point), op.rounding);
  }
  return oracle_round(v, op.rounding) + q.zero_point;
}

/// Returns clamp(round(x / s) + zp, q_min, q_max) for an element that is not NaN.
template <class T>
long double oracle_code(T x, QParams<T> q, const FakeQuantize& op) {
  const auto [q_min, q_max] = oracle_limits(op.bits, op.range);
  const long double code = oracle_nearest(x, q, op);
  if (code < q_min) return q_min;
  return code > q_max ? static_cast<long double>(q_max) : code;
}

/// Returns (code(x) - zp) s for one element.
template <class T>
T oracle_fake(T x, QParams<T> q, const FakeQuantize& op) {
  if (std::isnan(x)) return x;
  return static_cast<T>(static_cast<T>(oracle_code(x, q, op) - q.zero_point) * q.scale) + T(0);
}

/// True if x counts as inside the range.
template <class T>
bool oracle_inside(T x, QParams<T> q, const FakeQuantize& op) {
  if (std::isnan(x)) return false;
  const auto [q_min, q_max] = oracle_limits(op.bits, op.range);
  const bool batch = std::holds_alternative<PerBatch>(op.scale_mode);
  const bool open_below = batch && op.scheme == Scheme::Affine;
  if (op.mask == MaskRule::Value) {
    const T low = static_cast<T>(static_cast<T>(q_min) - q.zero_point) * q.scale;
    const T high = static_cast<T>(static_cast<T>(q_max) - q.zero_point) * q.scale;
    return (open_below || x >= low) && (batch || x <= high);
  }
  const long double code = oracle_nearest(x, q, op);
  return (open_below || code >= q_min) && (batch || code <= q_max);
}

/// Returns max(scale, floor), or with power_of_two the least power of two not below that.
template <class T>
T oracle_scale_in_use(T scale, const FakeQuantize& op) {
  const T raised = std::max(scale, static_cast<T>(op.floor));
  if (!op.power_of_two) return raised;
  T power = 1;
  while (power < raised) power *= T(2);
  while (power / T(2) >= raised) power /= T(2);
  return power;
}

/// Returns scale and zero point of data in [min, max], in T.
template <class T>
QParams<T> oracle_qparams(T min, T max, const FakeQuantize& op) {
  const auto [q_min, q_max] = oracle_limits(op.bits, op.range);
  if (op.scheme == Scheme::Symmetric) {
    const T divisor = op.denominator == Denominator::QMax
                          ? static_cast<T>(q_max)
                          : static_cast<T>((q_max - q_min) / 2.0);
    const T largest = std::max(std::fabs(min), std::fabs(max));
    return {oracle_scale_in_use(static_cast<T>(largest / divisor), op), T(0)};
  }
  const T low = min < 0 ? min : T(0);
  const T high = max > 0 ? max : T(0);
  const T scale = oracle_scale_in_use(
      static_cast<T>(static_cast<T>(high - low) / static_cast<T>(q_max - q_min)), op);
  const long double zero = q_min - oracle_round(static_cast<T>(low / scale), op.rounding);
  return {scale, static_cast<T>(zero < q_min ? q_min : zero > q_max ? q_max : zero)};
}

/// Returns the channel of element i from its coordinates.
inline size_t oracle_channel(size_t i, const Shape& shape, const FakeQuantize& op) {
  if (!op.axis) return 0;
  std::vector<size_t> at(static_cast<size_t>(shape.rank()));
  for (int a = shape.rank() - 1; a >= 0; --a) {
    at[static_cast<size_t>(a)] = i % static_cast<size_t>(shape[a]);
    i /= static_cast<size_t>(shape[a]);
  }
  const int axis = *op.axis < 0 ? *op.axis + shape.rank() : *op.axis;
  if (!op.group_size) return at[static_cast<size_t>(axis)];
  const auto group = static_cast<size_t>(*op.group_size);
  size_t channel = 0;
  for (int a = 0; a < shape.rank(); ++a) {
    const bool grouped = a == axis;
    const auto extent = static_cast<size_t>(shape[a]) / (grouped ? group : 1);
    channel = channel * extent + at[static_cast<size_t>(a)] / (grouped ? group : 1);
  }
  return channel;
}

/// Returns max(max|x| / denominator, floor) over finite x, in T, for a symmetric op.
template <class T>
T oracle_scale(T max_abs, const FakeQuantize& op) {
  return oracle_qparams(max_abs, max_abs, op).scale;
}

}  // namespace qtape::test
