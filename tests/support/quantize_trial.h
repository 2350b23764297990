// Quantize, Dequantize and FakeQuantize of data at every edge of their grids, and the results
// of the independent formulas.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "qtape/tests/support/op_run.h"
#include "qtape/tests/support/quantize_oracle.h"

namespace qtape::test {

/// Returns the FakeQuantize with which `op` must agree.
inline FakeQuantize fake_of(const Quantize& op) {
  return {.bits = op.bits,
          .axis = op.axis,
          .group_size = op.group_size,
          .range = op.range,
          .scheme = op.scheme,
          .rounding = op.rounding,
          .division = op.division,
          .zero_point = op.zero_point,
          .ste = Ste::ClippedIdentity,
          .mask = op.mask,
          .scale_mode = Fixed{}};
}

/// Returns v as stored in memory.
template <class S, class T>
T stored(T v) {
  return Storage<S>::load(Storage<S>::store(v));
}

/// A quantizer with operands: scales and zero points that differ between channels, and x at
/// every edge of their grids, selected by `turn`.
template <class S>
struct Trial {
  using T = typename Storage<S>::Compute;
  static constexpr double x_nan = std::numeric_limits<double>::quiet_NaN();
  Quantize op;
  FakeQuantize fake;
  Shape shape;
  std::vector<TensorType> types;
  std::vector<QParams<T>> qparams;  // of each element
  std::vector<T> x;
  std::vector<Values> values;
  Values codes;
  size_t nan;  // the element that is NaN for FakeQuantize

  Trial(const Quantize& quantize, const Shape& x_shape, size_t turn)
      : op(quantize), fake(fake_of(quantize)), shape(x_shape), nan(turn % 500) {
    const DType scale_type = scale_dtype(dtype_of<S>);
    const TensorType scales{scale_type, granularity_of(op).scales_shape(shape)};
    types = {{dtype_of<S>, shape}, scales};
    if (op.scheme == Scheme::Affine) types.push_back(scales);
    const auto [q_min, q_max] = oracle_limits(op.bits, op.range);
    Values scale, zero_point;
    for (size_t c = 0; c < static_cast<size_t>(scales.elements()); ++c) {
      scale.push_back(static_cast<T>(std::array{1.0, 0.1, 0.003, 17.0, 0.25}[(c + turn) % 5]));
      const std::array points = {q_min, q_min + (q_max - q_min) / 3, q_max};
      zero_point.push_back(op.scheme == Scheme::Affine ? points[(c + turn) % 3] : 0);
    }
    const Random random(turn, 6);
    for (size_t i = 0; i < static_cast<size_t>(shape.elements()); ++i) {
      const size_t c = oracle_channel(i, shape, fake);
      qparams.push_back({static_cast<T>(scale[c]), static_cast<T>(zero_point[c])});
      x.push_back(stored<S>(edge(i + turn, random.uniform(i), qparams[i])));
      codes.push_back(static_cast<double>(oracle_code(x[i], qparams[i], fake)));
    }
    values = {Values(x.begin(), x.end()), scale, zero_point};
    values.resize(types.size());
  }

  /// Returns special values, ends, ties and their neighbours, or values between; u is uniform.
  T edge(size_t kind, double u, const QParams<T>& q) const {
    const auto [q_min, q_max] = oracle_limits(op.bits, op.range);
    const T low = static_cast<T>(q_min) - q.zero_point;
    const T high = static_cast<T>(q_max) - q.zero_point;
    const T steps = static_cast<T>(low - 2 + std::floor(u * (q_max - q_min + 4)));
    const T tie = (steps + T(0.5)) * q.scale;
    using Limits = std::numeric_limits<T>;
    const std::array<T, 16> edges = {T(0),
                                     T(-0.0),
                                     Limits::infinity(),
                                     -Limits::infinity(),
                                     Limits::denorm_min(),
                                     T(-6e-8),
                                     Limits::max(),
                                     low * q.scale,
                                     high * q.scale,
                                     std::nextafter(low * q.scale, -Limits::max()),
                                     std::nextafter(high * q.scale, Limits::max()),
                                     tie,
                                     std::nextafter(tie, Limits::max()),
                                     std::nextafter(tie, -Limits::max()),
                                     static_cast<T>((2.4 * u - 1.2) * q_max) * q.scale,
                                     (kind % 32 < 16 ? low - T(0.5) : high + T(0.5)) * q.scale};
    return edges[kind % 16];
  }

  /// Returns f(i) for each element.
  template <class F>
  Values each(F f) const {
    Values all;
    for (size_t i = 0; i < x.size(); ++i) all.push_back(f(i));
    return all;
  }
  /// Returns the values of Dequantize, and with a NaN those of FakeQuantize.
  Values y(bool with_nan) const {
    return each([&](size_t i) {
      const T v = stored<S>(oracle_fake(x[i], qparams[i], fake));
      return with_nan && i == nan ? x_nan : v;
    });
  }
  /// Returns (dy / s) mask, added to `base`.
  Values dx(const Values& dy, T base) const {
    return each([&](size_t i) {
      const bool inside = oracle_inside(x[i], qparams[i], fake);
      const T g = static_cast<T>(static_cast<float>(dy[i])) / qparams[i].scale;
      return stored<S>(base + (inside ? g : T(0)));
    });
  }
  /// Returns dy mask, added to `base`; a NaN is outside.
  Values masked(const Values& dy, T base, bool with_nan) const {
    return each([&](size_t i) {
      const bool inside = !(with_nan && i == nan) && oracle_inside(x[i], qparams[i], fake);
      return stored<S>(base + (inside ? stored<S>(static_cast<T>(dy[i])) : T(0)));
    });
  }
  /// Returns dy s, added to `base`.
  Values dq(const Values& dy, T base) const {
    return each([&](size_t i) {
      const T g = stored<S>(static_cast<T>(dy[i])) * qparams[i].scale;
      return static_cast<float>(base + g);
    });
  }

  OpRun quantize(RunOptions options = {}) const { return {op, types, values, options}; }
  OpRun dequantize(RunOptions options = {}) const {
    const Dequantize back{op.axis, op.group_size, op.scheme, dtype_of<S>};
    std::vector<TensorType> operands = types;
    operands[0].dtype = op.infer(types).dtype;
    std::vector<Values> numbers = values;
    numbers[0] = codes;
    return {back, operands, numbers, options};
  }
  /// FakeQuantize of the same x except for one NaN, which has no code.
  OpRun fake_quantize(RunOptions options = {}) const {
    std::vector<Values> numbers = values;
    if (nan < x.size()) numbers[0][nan] = x_nan;
    return {fake, types, numbers, options};
  }
  /// FakeQuantizeLSQ with scales of both signs and zero points that round to those of the
  /// others.
  OpRun learned(RunOptions options = {}) const {
    const FakeQuantizeLSQ lsq{.bits = op.bits,
                              .axis = op.axis,
                              .group_size = op.group_size,
                              .range = op.range,
                              .scheme = op.scheme,
                              .rounding = op.rounding,
                              .division = op.division,
                              .mask = op.mask};
    std::vector<Values> numbers = values;
    for (size_t c = 1; c < numbers[1].size(); c += 2) numbers[1][c] = -numbers[1][c];
    for (size_t c = 0; numbers.size() > 2 && c < numbers[2].size(); ++c) numbers[2][c] += 0.4;
    return {lsq, types, numbers, options};
  }
};

}  // namespace qtape::test
