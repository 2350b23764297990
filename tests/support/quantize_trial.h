// A Quantize node followed by Dequantize, with data at every edge of their grids, and the
// results of the independent formulas.
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
  Quantize op;
  FakeQuantize fake;
  Shape shape;
  std::vector<TensorType> types;
  std::vector<QParams<T>> qparams;  // of each element
  std::vector<T> x;
  std::vector<Values> values;
  Values codes;

  Trial(const Quantize& quantize, const Shape& x_shape, size_t turn)
      : op(quantize), fake(fake_of(quantize)), shape(x_shape) {
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

  /// Returns (dy / s) mask, added to `base`.
  Values dx(const Values& dy, T base) const {
    Values dx;
    for (size_t i = 0; i < x.size(); ++i) {
      const bool inside = oracle_inside(x[i], qparams[i], fake);
      const T g = inside ? static_cast<T>(static_cast<float>(dy[i])) / qparams[i].scale : T(0);
      dx.push_back(stored<S>(base + g));
    }
    return dx;
  }

  /// Returns dy s, added to `base`.
  Values dq(const Values& dy, T base) const {
    Values dq;
    for (size_t i = 0; i < x.size(); ++i) {
      const T g = stored<S>(static_cast<T>(dy[i])) * qparams[i].scale;
      dq.push_back(static_cast<float>(base + g));
    }
    return dq;
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
  Values faked() const {
    OpRun run(fake, types, values);
    run.step().mode = mode::eval;
    return run.forward();
  }
};

}  // namespace qtape::test
