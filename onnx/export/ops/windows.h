// Integer ops over windows and images in ONNX.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/onnx/export/onnx_program.h"
#include "qtape/onnx/export/onnx_windows.h"

namespace qtape {
namespace {

/// Returns [n, c, ...] with the padding of `window` filled with the lowest codes, or with
/// their values.
std::string bordered(OnnxProgram& p, const std::string& x, const Window& window, bool one) {
  const IntegerValue& value = p.in(0);
  const auto [lowest, highest] = dispatch_codes(value.type.dtype, []<class Code>() {
    using Limits = std::numeric_limits<Code>;
    return std::pair<int32_t, int32_t>(Limits::lowest(), Limits::max());
  });
  const std::string border = p.code_or_float("border", lowest, value);
  std::vector<int64_t> pads = {0, 0};
  if (!one) pads.push_back(window.h.begin);
  pads.insert(pads.end(), {window.w.begin, 0, 0});
  if (!one) pads.push_back(end_padding(window.h));
  pads.push_back(end_padding(window.w));
  const std::string padded =
      p.to.apply("Pad", {x, p.to.numbers(p.named("pads"), pads), border}, p.named("padded"));
  // A Clip without effect: ONNX Runtime 1.21 merges a Pad that directly precedes a MaxPool
  // into it, and then rejects the padding.
  return p.to.apply("Clip", {padded, border, p.code_or_float("highest", highest, value)},
                    p.named("kept"));
}

Window without_padding(Window window) {
  for (WindowAxis* a : {&window.h, &window.w}) {
    a->in += a->begin + end_padding(*a);
    a->begin = 0;
  }
  return window;
}

Written average_in_floats(OnnxProgram& p, const integer::AvgPool& op) {
  const Shape& shape = p.in(0).type.shape;
  onnx::NodeProto& made =
      p.to.node("AveragePool", {p.dequantized(p.channels_first(0), p.in(0))}, p.named("mean"));
  set_window(made, op.pool(shape).window, shape.rank() == 3, false);
  set_attribute(made, "count_include_pad", int64_t{op.count_include_pad});
  return {made.output(0), true};
}

/// Adds the sums of u8 codes minus `x_zero` by windows of ones.
std::string sums_of_windows(OnnxProgram& p, const std::string& x, const std::string& x_zero,
                            const Pool& pool, bool one) {
  const auto& [h, w] = pool.window;
  const Shape filter =
      one ? Shape{pool.channels, 1, w.kernel} : Shape{pool.channels, 1, h.kernel, w.kernel};
  const std::vector<int8_t> ones(static_cast<size_t>(filter.elements()), 1);
  const auto [by, by_zero] = p.unsigned_weights(filter, ones);
  return conv_integer(p, x, x_zero, by, by_zero, pool.window, one, pool.channels);
}

/// Adds `x` at `places` along an axis, times their weights in parts of `parts`.
template <class T>
std::string weighted(OnnxProgram& p, const std::string& x, int axis, int rank,
                     const std::vector<int64_t>& places, const std::vector<int64_t>& weights,
                     int64_t parts) {
  onnx::NodeProto& made =
      p.to.node("Gather", {x, p.to.numbers(p.named("places"), places)}, p.named("taken"));
  set_attribute(made, "axis", int64_t{axis});
  std::vector<T> factors;
  for (const int64_t each : weights) {
    factors.push_back(static_cast<T>(each) / static_cast<T>(parts));
  }
  Shape shape = Shape(std::vector<int64_t>(static_cast<size_t>(rank), 1));
  shape = shape.with(axis, std::ssize(factors));
  const std::string taken = made.output(0);
  return p.to.apply("Mul",
                    {taken, p.to.constant<T>(p.named("weight"),
                                             std::is_same_v<T, float> ? DType::F32 : DType::S32,
                                             shape, factors)},
                    p.named("weighted"));
}

/// Adds the interpolation of `x`, one axis after the other; of integers with whole weights.
template <class T>
std::string interpolated(OnnxProgram& p, const integer::Interpolate& op, std::string x) {
  const Shape& shape = p.in(0).type.shape;
  for (int position = 1; position + 1 < shape.rank(); ++position) {
    const int axis = p.written_axis(0, position);
    const auto k = static_cast<size_t>(position - 1);
    const int64_t parts = op.divisor[k];
    const int64_t last = shape[position] - 1;
    std::vector<int64_t> low, high, near, far;
    for (int64_t i = 0; i < op.extents[k]; ++i) {
      const int64_t at = std::clamp<int64_t>(op.step[k] * i + op.offset[k], 0, last * parts);
      low.push_back(at / parts);
      high.push_back(std::min(last, at / parts + 1));
      far.push_back(at % parts);
      near.push_back(parts - far.back());
    }
    const int64_t by = std::is_same_v<T, float> ? parts : 1;
    const std::string a = weighted<T>(p, x, axis, shape.rank(), low, near, by);
    const std::string b = weighted<T>(p, x, axis, shape.rank(), high, far, by);
    x = p.to.apply("Add", {a, b}, p.named("between"));
  }
  return x;
}

}  // namespace

/// Runtimes reject padding as wide as the kernel, which is possible with dilation: in that
/// case x is padded with the lowest codes first.
inline Written write(const integer::Structure<MaxPool>& op, OnnxProgram& p) {
  const Shape& x = p.in(0).type.shape;
  const bool one = x.rank() == 3;
  Window window = op.pool(x).window;
  const auto wide = [](const WindowAxis& a) {
    return std::max(a.begin, end_padding(a)) >= a.kernel;
  };
  const bool padded = wide(window.h) || wide(window.w);
  return {p.chosen(p.channels_first(0),
                   [&](const std::string& from) {
                     const std::string around = padded ? bordered(p, from, window, one) : from;
                     if (padded) window = without_padding(window);
                     onnx::NodeProto& made = p.to.node("MaxPool", {around}, p.named("largest"));
                     set_window(made, window, one, true);
                     return made.output(0);
                   }),
          true};
}

inline Written write(const integer::Structure<Upsample>&, OnnxProgram& p) {
  const Shape& x = p.in(0).type.shape;
  // Repeats the elements of each spatial axis: along a new axis after it, which is then
  // joined.
  std::string name = p.written(0).name;
  for (int axis = 1; axis + 1 < x.rank(); ++axis) {
    const int64_t factor = x[axis] == 0 ? 1 : p.out().type.shape[axis] / x[axis];
    std::vector<int64_t> places;
    for (int64_t i = 0; i < x[axis] * factor; ++i) places.push_back(i / factor);
    onnx::NodeProto& made = p.to.node("Gather", {name, p.to.numbers(p.named("places"), places)},
                                      p.named("repeated"));
    set_attribute(made, "axis", int64_t{p.written_axis(0, axis)});
    name = made.output(0);
  }
  return {name, p.written(0).channels_first};
}

inline Written write(const integer::Interpolate& op, OnnxProgram& p) {
  const auto& [x, first] = p.written(0);
  if (p.in_floats()) return {interpolated<float>(p, op, p.dequantized(x, p.in(0))), first};
  check(p.out().type.dtype == DType::S32, "ONNX's sums have 32 bits");
  return {interpolated<int32_t>(p, op, p.differences(x, p.in(0))), first};
}

inline Written write(const integer::Pad& op, OnnxProgram& p) {
  const int rank = p.out().type.shape.rank();
  std::vector<int64_t> pads(static_cast<size_t>(2 * rank));
  for (int axis = 0; axis < rank; ++axis) {
    const auto at = static_cast<size_t>(p.written_axis(0, axis));
    pads[at] = op.begin[axis];
    pads[at + static_cast<size_t>(rank)] = op.end[axis];
  }
  const IntegerValue& value = p.in(0);
  const Written& written = p.written(0);
  return {p.chosen(written.name,
                   [&](const std::string& x) {
                     const std::string border = p.code_or_float("border", op.code, value);
                     return p.to.apply("Pad", {x, p.to.numbers(p.named("pads"), pads), border},
                                       p.named("padded"));
                   }),
          written.channels_first};
}

/// Adds the means of codes by windows of ones, which add the codes themselves: of positive and
/// of negative sums by themselves, since quotients are rounded towards 0.
inline Written write(const integer::MeanPool& op, OnnxProgram& p) {
  IntegerValue codes = p.in(0);
  check(!p.codes_in_floats(), "QONNX has no means of codes that round");
  check(!p.is_wide(codes.type.dtype), "ONNX adds 8-bit codes, got 16 bits");
  codes.zero_point = 0;
  const bool one = codes.type.shape.rank() == 3;
  const Pool pool = op.pool(codes.type.shape);
  const auto [x, x_zero] = p.unsigned_codes(p.channels_first(0), codes);
  const std::string sums = sums_of_windows(p, x, x_zero, pool, one);
  const auto& [h, w] = pool.window;
  std::vector<int32_t> counts, halves;
  for (int64_t i = 0; i < h.out; ++i) {
    for (int64_t j = 0; j < w.out; ++j) {
      const int64_t count = real_elements(h, i).size() * real_elements(w, j).size();
      counts.push_back(static_cast<int32_t>(count));
      halves.push_back(static_cast<int32_t>(count / 2));
    }
  }
  const Shape places = one ? Shape{1, 1, w.out} : Shape{1, 1, h.out, w.out};
  const auto constant = [&](std::string_view part, const std::vector<int32_t>& values) {
    return p.to.constant<int32_t>(p.named(part), DType::S32, places, values);
  };
  const std::string count = constant("count", counts), half = constant("half", halves);
  const std::string zero = p.to.scalar<int32_t>(p.named("none"), DType::S32, 0);
  const auto mean = [&](const std::string& sum) {
    const std::string positive = p.to.apply("Clip", {sum, zero}, p.named("positive"));
    const std::string above = p.to.apply("Add", {positive, half}, p.named("above"));
    return p.to.apply("Div", {above, count}, p.named("mean"));
  };
  const std::string opposite = p.to.apply("Sub", {zero, sums}, p.named("opposite"));
  const std::string means = p.to.apply("Sub", {mean(sums), mean(opposite)}, p.named("means"));
  return {p.cast(means, codes.type.dtype, "codes"), true};
}

/// Adds sums by windows of ones, weighted by their divisors.
inline Written write(const integer::AvgPool& op, OnnxProgram& p) {
  if (p.in_floats()) return average_in_floats(p, op);
  check(p.out().type.dtype == DType::S32, "ONNX's sums have 32 bits");
  const Shape& shape = p.in(0).type.shape;
  const bool one = shape.rank() == 3;
  const Pool pool = op.pool(shape);
  const auto [x, x_zero] = p.unsigned_codes(p.channels_first(0), p.in(0));
  const std::string sums = sums_of_windows(p, x, x_zero, pool, one);
  const auto& [h, w] = pool.window;
  const auto common = op.common_divisor(pool, int64_t{1} << 23).value();
  std::vector<int32_t> times;
  for (int64_t i = 0; i < h.out; ++i) {
    for (int64_t j = 0; j < w.out; ++j) {
      times.push_back(static_cast<int32_t>(common / op.divisor(pool, i, j)));
    }
  }
  const Shape places = one ? Shape{1, 1, w.out} : Shape{1, 1, h.out, w.out};
  return {
      p.to.apply("Mul",
                 {sums, p.to.constant<int32_t>(p.named("times"), DType::S32, places, times)},
                 p.named("sum")),
      true};
}

}  // namespace qtape
