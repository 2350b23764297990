// Products in ONNX.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "qtape/core/error.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/onnx/export/onnx_program.h"
#include "qtape/onnx/export/onnx_windows.h"

namespace qtape {
namespace {

/// Adds x [..., k] times weights [n, k], in floats.
Written linear_in_floats(OnnxProgram& p, const integer::Linear& op) {
  const auto [n, k] = std::pair(op.weights.outputs(), op.weights.terms());
  const std::string x = p.dequantized(p.channels_last(0), p.in(0));
  const std::string w = p.weight_value(op.weights, {n, k}, op.weights.unpacked());
  if (p.out().type.shape.rank() == 2) {
    onnx::NodeProto& made = p.to.node("Gemm", {x, w, p.bias_value(op.weights)}, p.named("sum"));
    set_attribute(made, "transB", int64_t{1});
    return {made.output(0)};
  }
  const std::string products =
      p.to.apply("MatMul", {x, p.transposed(w, {1, 0})}, p.named("products"));
  return {p.to.apply("Add", {products, p.bias_value(op.weights)}, p.named("sum"))};
}

}  // namespace

inline Written write(const integer::Linear& op, OnnxProgram& p) {
  if (p.in_floats()) return linear_in_floats(p, op);
  const auto [n, k] = std::pair(op.weights.outputs(), op.weights.terms());
  check(op.weights.certificate.fits_s32(), "ONNX adds products in 32 bits");
  const std::vector<int8_t> rows = op.weights.unpacked();
  std::vector<int8_t> columns(rows.size());
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t i = 0; i < k; ++i) {
      columns[static_cast<size_t>(i * n + c)] = rows[static_cast<size_t>(c * k + i)];
    }
  }
  const auto [x, x_zero] = p.unsigned_codes(p.channels_last(0), p.in(0));
  const auto [w, w_zero] = p.unsigned_weights({k, n}, columns);
  return {p.with_bias(p.to.apply("MatMulInteger", {x, w, x_zero, w_zero}, p.named("products")),
                      op.weights, false)};
}

namespace {

/// Adds operand `i` with the last two axes exchanged if `swap`.
std::string matrices(OnnxProgram& p, size_t i, bool swap) {
  const std::string x = p.channels_last(i);
  if (!swap) return x;
  std::vector<int64_t> axes(static_cast<size_t>(p.in(i).type.shape.rank()));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  std::swap(axes.end()[-1], axes.end()[-2]);
  return p.transposed(x, axes);
}

}  // namespace

inline Written write(const integer::MatMul& op, OnnxProgram& p) {
  const std::string a = matrices(p, 0, op.transpose_a);
  const std::string b = matrices(p, 1, op.transpose_b);
  if (p.in_floats()) {
    return {p.to.apply("MatMul", {p.dequantized(a, p.in(0)), p.dequantized(b, p.in(1))},
                       p.named("sum"))};
  }
  check(p.out().type.dtype == DType::S32, "ONNX adds products in 32 bits");
  const auto [x, x_zero] = p.unsigned_codes(a, p.in(0));
  const auto [y, y_zero] = p.unsigned_codes(b, p.in(1));
  return {p.to.apply("MatMulInteger", {x, y, x_zero, y_zero}, p.named("products"))};
}

inline Written write(const integer::Conv& op, OnnxProgram& p) {
  check(p.in_floats() || op.weights.certificate.fits_s32(), "ONNX adds products in 32 bits");
  const bool one = op.taps.rank() == 1;
  const Convolution c = op.extents(p.in(0).type.shape);
  const int64_t taps = c.window.kernel();
  const std::vector<int8_t> last = op.weights.unpacked();  // [o, taps, channels]
  std::vector<int8_t> first(last.size());
  for (int64_t o = 0; o < c.out_channels; ++o) {
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t k = 0; k < c.inputs(); ++k) {
        first[static_cast<size_t>((o * c.inputs() + k) * taps + t)] =
            last[static_cast<size_t>((o * taps + t) * c.inputs() + k)];
      }
    }
  }
  const Shape shape =
      one ? Shape{c.out_channels, c.inputs(), c.window.w.kernel}
          : Shape{c.out_channels, c.inputs(), c.window.h.kernel, c.window.w.kernel};
  if (p.in_floats()) {
    const std::string x = p.dequantized(p.channels_first(0), p.in(0));
    const std::string w = p.weight_value(op.weights, shape, first);
    onnx::NodeProto& made = p.to.node("Conv", {x, w, p.bias_value(op.weights)}, p.named("sum"));
    set_window(made, c.window, one, true);
    set_attribute(made, "group", c.groups);
    return {made.output(0), true};
  }
  const auto [x, x_zero] = p.unsigned_codes(p.channels_first(0), p.in(0));
  const auto [w, w_zero] = p.unsigned_weights(shape, first);
  return {p.with_bias(conv_integer(p, x, x_zero, w, w_zero, c.window, one, c.groups),
                      op.weights, true),
          true};
}

}  // namespace qtape
