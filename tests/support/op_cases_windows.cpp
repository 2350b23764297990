// Cases of ops on images: poolings.
#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

int64_t at_or(const Shape& numbers, int i, int64_t none) {
  return numbers.rank() == 0 ? none : numbers[i];
}

template <class X>
WindowAxis axis_of(const X& op, const Shape& x, int i) {
  int64_t dilation = 1;
  if constexpr (requires { op.dilation; }) dilation = at_or(op.dilation, i, 1);
  return window_axis(x[1 + i], op.kernel[i], at_or(op.stride, i, op.kernel[i]), dilation,
                     op.padding, at_or(op.pads_begin, i, 0), at_or(op.pads_end, i, 0));
}

/// The elements of x in the window of each element of y, in index order.
struct Windows {
  Shape y;
  int64_t kernel = 1;
  std::vector<std::vector<size_t>> members;
};

template <class X>
Windows windows_of(const X& op, const Shape& x) {
  const bool images = x.rank() == 4;
  const WindowAxis h = images ? axis_of(op, x, 0) : WindowAxis{};
  const WindowAxis w = axis_of(op, x, images ? 1 : 0);
  const int64_t channels = x[-1];
  Windows result{images ? Shape{x[0], h.out, w.out, channels} : Shape{x[0], w.out, channels},
                 h.kernel * w.kernel,
                 {}};
  for (int64_t k = 0; k < result.y.elements(); ++k) {
    const int64_t c = k % channels;
    const int64_t j = k / channels % w.out;
    const int64_t i = k / channels / w.out % h.out;
    const int64_t n = k / channels / w.out / h.out;
    auto& members = result.members.emplace_back();
    for (int64_t p = 0; p < h.kernel; ++p) {
      for (int64_t q = 0; q < w.kernel; ++q) {
        const int64_t row = i * h.stride + p * h.dilation - h.begin;
        const int64_t column = j * w.stride + q * w.dilation - w.begin;
        if (row < 0 || row >= h.in || column < 0 || column >= w.in) continue;
        members.push_back(
            static_cast<size_t>(((n * h.in + row) * w.in + column) * channels + c));
      }
    }
  }
  return result;
}

/// Returns the first largest element; NaN is above everything.
size_t peak(const Values& x, const std::vector<size_t>& members) {
  size_t best = members[0];
  for (size_t i : members) {
    if (x[i] > x[best] || (std::isnan(x[i]) && !std::isnan(x[best]))) best = i;
  }
  return best;
}

/// Returns attributes that both poolings have, with shapes of x.
template <class X>
std::vector<std::pair<X, Shape>> pool_table() {
  return {
      {X{}, {2, 4, 6, 3}},
      {X{}, {1, 5, 5, 1}},
      {X{}, {3, 6, 5, 6}},
      {X{.kernel = {2, 3}}, {2, 5, 7, 21}},
      {X{.kernel = {1, 1}}, {2, 3, 2, 2}},
      {X{.kernel = {4, 5}}, {2, 4, 5, 2}},
      {X{.kernel = {3, 3}, .stride = {1, 1}}, {1, 5, 6, 2}},
      {X{.kernel = {1, 2}, .stride = {3, 3}}, {2, 7, 8, 2}},
      {X{.kernel = {3, 3}, .stride = {1, 1}, .padding = Padding::Same}, {1, 4, 5, 3}},
      {X{.kernel = {3, 2}, .stride = {2, 2}, .padding = Padding::Same}, {2, 6, 5, 2}},
      {X{.kernel = {2, 5}, .stride = {3, 1}, .padding = Padding::Same}, {1, 7, 2, 3}},
      {X{.kernel = {3, 2},
         .stride = {2, 1},
         .padding = Padding::Explicit,
         .pads_begin = {1, 0},
         .pads_end = {2, 1}},
       {2, 7, 5, 4}},
      {X{.padding = Padding::Explicit, .pads_begin = {1, 1}, .pads_end = {1, 1}}, {1, 2, 4, 2}},
      {X{.kernel = {3, 3}, .stride = {2, 2}, .padding = Padding::Same}, {1, 5, 4, 131}},
      {X{.kernel = {3}}, {2, 9, 4}},
      {X{.kernel = {3}, .stride = {1}, .padding = Padding::Same}, {2, 5, 3}},
      {X{.kernel = {4},
         .stride = {2},
         .padding = Padding::Explicit,
         .pads_begin = {3},
         .pads_end = {1}},
       {1, 6, 2}},
      {X{}, {0, 4, 4, 2}},
      {X{}, {2, 4, 4, 0}},
  };
}

template <class X>
std::vector<OpUse> large_pools() {
  return {
      {X{.kernel = {3, 3}, .stride = {2, 2}, .padding = Padding::Same},
       {{{5, 33, 31, 24}, 0, 100}}},
      {X{}, {{{9, 64, 50, 6}, 0, 100}}},
      {X{.kernel = {5}, .stride = {1}, .padding = Padding::Same}, {{{3, 3000, 9}, 0, 100}}}};
}

/// Refusals of both poolings for x [1, 4, 4, 2].
template <class X>
std::vector<Refusal> pool_refusals() {
  const std::vector<TensorType> x = {f32({1, 4, 4, 2})};
  const int64_t most = Shape::max_elements;
  return {
      {X{}, {f32({2, 3})}, "x must be [n, h, w, c] or [n, l, c], got [2, 3]"},
      {X{}, {f32({2, 3, 4, 5, 6})}, "x must be [n, h, w, c] or [n, l, c], got [2, 3, 4, 5, 6]"},
      {X{},
       {f32({2, 3, 4})},
       "kernel must have 1 numbers, one for each spatial axis, got [2, 2]"},
      {X{.kernel = {2}}, x, "kernel must have 2 numbers, one for each spatial axis, got [2]"},
      {X{.stride = {1}}, x,
       "stride must have 2 numbers, one for each spatial axis, or none, got [1]"},
      {X{.padding = Padding::Explicit, .pads_begin = {1, 0, 0}}, x,
       "pads_begin must have 2 numbers, one for each spatial axis, or none, got [1, 0, 0]"},
      {X{.kernel = {0, 2}}, x, "kernel must be at least 1 along h, got 0"},
      {X{.stride = {1, 0}}, x, "stride must be at least 1 along w, got 0"},
      {X{.kernel = {5, 2}}, x, "kernel of 5 with dilation 1 spans 5 along h, padded x has 4"},
      {X{.kernel = {2, 7},
         .padding = Padding::Explicit,
         .pads_begin = {0, 1},
         .pads_end = {0, 1}},
       x, "kernel of 7 with dilation 1 spans 7 along w, padded x has 6"},
      {X{.pads_begin = {1, 0}}, x,
       "padding of 1 and 0 along h needs padding Explicit, got Valid"},
      {X{.padding = Padding::Explicit, .pads_begin = {2, 0}}, x,
       "a window lies entirely in the padding along h: extent 4, kernel 2, stride 2, dilation 1, padding 2 and 0"},
      {X{.padding = Padding::Explicit, .pads_end = {0, 2}}, x,
       "a window lies entirely in the padding along w: extent 4, kernel 2, stride 2, dilation 1, padding 0 and 2"},
      {X{}, {f32({1, 0, 4, 2})}, "x needs an extent of at least 1 along h, got 0"},
      {X{.kernel = {1}}, {f32({1, 0, 4})}, "x needs an extent of at least 1 along l, got 0"},
      {X{.kernel = {int64_t{1} << 30, 2}}, x,
       "windows may have at most 2^31 - 1 elements, kernel is [1073741824, 2]"},
      {X{.padding = Padding::Explicit, .pads_begin = {most, 0}},
       {f32({1, most / 2, 1, 1})},
       "a window lies entirely in the padding along h: extent 140737488355328, kernel 2, stride 2, dilation 1, padding 281474976710656 and 0"}};
}

OpCase max_pool() {
  OpCase c;
  c.value = [](const OpUse& use, Arrays x) {
    const Windows windows = windows_of(std::get<MaxPool>(use.op), x[0].type.shape);
    Array y{{x[0].type.dtype, windows.y}, {}};
    for (const auto& each : windows.members) {
      y.values.push_back(x[0].values[peak(x[0].values, each)]);
    }
    return y;
  };
  c.gradient = [](const OpUse& use, Arrays x, const Array& dy) -> std::vector<Values> {
    const Windows windows = windows_of(std::get<MaxPool>(use.op), x[0].type.shape);
    Values dx(x[0].values.size());
    for (size_t i = 0; i < windows.members.size(); ++i) {
      dx[peak(x[0].values, windows.members[i])] += dy.values[i];
    }
    return {dx};
  };
  c.dtypes = {DType::F64, DType::F32, DType::S16, DType::U16, DType::S8, DType::U8};
  auto table = pool_table<MaxPool>();
  table.push_back({{.kernel = {2, 3}, .stride = {1, 2}, .dilation = {2, 1}}, {1, 6, 7, 2}});
  table.push_back(
      {{.kernel = {3, 2}, .stride = {2, 1}, .dilation = {2, 3}, .padding = Padding::Same},
       {2, 5, 4, 3}});
  table.push_back({{.kernel = {2}, .stride = {1}, .dilation = {4}}, {2, 9, 3}});
  add_shapes(c, table);
  const MaxPool overlapping{.kernel = {3, 3}, .stride = {1, 1}, .padding = Padding::Same};
  c.uses.push_back({overlapping, {{{2, 5, 6, 11}, -1, 1, Fill::Halves}}});
  c.uses.push_back(
      {overlapping, {{.shape = {2, 5, 6, 11}, .fill = Fill::Special, .dtype = DType::F32}}});
  constexpr double inf = std::numeric_limits<double>::infinity();
  c.uses.push_back({MaxPool{.kernel = {2}},
                    {{.shape = {1, 8, 1},
                      .dtype = DType::F64,
                      .values = {-inf, -inf, 0, -0.0, inf, std::nan(""), std::nan(""), 1}}}});
  c.large = large_pools<MaxPool>();
  c.bench = {{MaxPool{}, {{{16, 32, 32, 32}}}}};
  c.integer = converts_on_grids({4, 6, 5, 3}, {MaxPool{}, overlapping,
                                               MaxPool{.kernel = {2, 3},
                                                       .stride = {1, 2},
                                                       .dilation = {2, 1},
                                                       .padding = Padding::Explicit,
                                                       .pads_begin = {1, 0},
                                                       .pads_end = {0, 2}}});
  c.refusals = pool_refusals<MaxPool>();
  const std::vector<TensorType> x = {f32({1, 4, 4, 2})};
  const int64_t most = Shape::max_elements;
  c.refusals.insert(
      c.refusals.end(),
      {{MaxPool{.dilation = {0, 1}}, x, "dilation must be at least 1 along h, got 0"},
       {MaxPool{.dilation = {1, 4}}, x,
        "kernel of 2 with dilation 4 spans 5 along w, padded x has 4"},
       {MaxPool{.dilation = {5, 1}, .padding = Padding::Same}, x,
        "dilation must be at most the extent along h, got 5 and 4"},
       {MaxPool{.kernel = {4, 1}, .dilation = {most, 1}}, x,
        "windows span more than 2^48 elements along h: extent 4, kernel 4, stride 4, dilation "
        "281474976710656, padding 0 and 0"},
       {MaxPool{.kernel = {int64_t{1} << 20, int64_t{1} << 20}},
        {f32({1, int64_t{1} << 24, int64_t{1} << 24, 1})},
        "windows may have at most 2^31 - 1 elements, kernel is [1048576, 1048576]"},
       {MaxPool{}, {s32({1, 4, 4, 2})}, "expected f32, f64, s8, u8, s16 or u16, got s32"}});
  c.conformance = {{MaxPool{}, {{{1, 4, 5, 2}}}},
                   {overlapping, {{{2, 3, 3, 2}}}},
                   {MaxPool{.kernel = {2, 3},
                            .stride = {1, 2},
                            .dilation = {2, 1},
                            .padding = Padding::Explicit,
                            .pads_begin = {1, 0},
                            .pads_end = {0, 2}},
                    {{{1, 5, 4, 2}}}},
                   {MaxPool{.kernel = {3}, .padding = Padding::Same}, {{{1, 8, 2}}}}};
  return c;
}

OpCase avg_pool() {
  OpCase c;
  const auto divisor = [](const AvgPool& op, const Windows& windows, size_t i) {
    return op.count_include_pad ? static_cast<double>(windows.kernel)
                                : static_cast<double>(windows.members[i].size());
  };
  c.value = [divisor](const OpUse& use, Arrays x) {
    const auto& op = std::get<AvgPool>(use.op);
    const Windows windows = windows_of(op, x[0].type.shape);
    Array y{{x[0].type.dtype, windows.y}, {}};
    for (size_t i = 0; i < windows.members.size(); ++i) {
      double sum = 0;
      for (size_t member : windows.members[i]) sum += x[0].values[member];
      y.values.push_back(sum / divisor(op, windows, i));
    }
    return y;
  };
  c.gradient = [divisor](const OpUse& use, Arrays x, const Array& dy) -> std::vector<Values> {
    const auto& op = std::get<AvgPool>(use.op);
    const Windows windows = windows_of(op, x[0].type.shape);
    Values dx(x[0].values.size());
    for (size_t i = 0; i < windows.members.size(); ++i) {
      for (size_t member : windows.members[i]) {
        dx[member] += dy.values[i] / divisor(op, windows, i);
      }
    }
    return {dx};
  };
  for (auto [op, shape] : pool_table<AvgPool>()) {
    for (bool counted : {true, false}) {
      op.count_include_pad = counted;
      c.uses.push_back({op, {{shape}}});
    }
  }
  const AvgPool overlapping{.kernel = {3, 3}, .stride = {1, 1}, .padding = Padding::Same};
  AvgPool real = overlapping;
  real.count_include_pad = false;
  c.uses.push_back({real, {{{2, 5, 6, 3}, -1, 1, Fill::Special}}});
  c.large = large_pools<AvgPool>();
  c.bench = {{AvgPool{}, {{{16, 32, 32, 32}}}}};
  const AvgPool uneven{.kernel = {2, 3},
                       .stride = {1, 2},
                       .padding = Padding::Explicit,
                       .pads_begin = {1, 0},
                       .pads_end = {0, 2},
                       .count_include_pad = false};
  c.integer = converts_on_grids({4, 6, 5, 3}, {AvgPool{}, overlapping, real, uneven});
  c.refusals = pool_refusals<AvgPool>();
  c.refusals.push_back({AvgPool{}, {s32({1, 4, 4, 2})}, "expected f32 or f64, got s32"});
  c.conformance = {{AvgPool{}, {{{1, 4, 5, 2}}}},
                   {overlapping, {{{2, 3, 3, 2}}}},
                   {real, {{{1, 4, 3, 2}}}},
                   {uneven, {{{1, 3, 4, 2}}}},
                   {AvgPool{.kernel = {3}, .padding = Padding::Same}, {{{1, 8, 2}}}}};
  return c;
}

OpCase global_avg_pool() {
  OpCase c;
  c.value = [](const OpUse& use, Arrays x) {
    const Shape& shape = x[0].type.shape;
    const int64_t channels = shape[-1];
    const int64_t positions = shape.rank() == 4 ? shape[1] * shape[2] : shape[1];
    Shape kept = shape.with(1, 1);
    if (shape.rank() == 4) kept = kept.with(2, 1);
    const bool keeps = std::get<GlobalAvgPool>(use.op).keep_dims;
    Array y{{x[0].type.dtype, keeps ? kept : Shape{shape[0], channels}}, {}};
    for (int64_t k = 0; k < y.type.elements(); ++k) {
      long double sum = 0;
      for (int64_t p = 0; p < positions; ++p) {
        sum += x[0].values[static_cast<size_t>((k / channels * positions + p) * channels +
                                               k % channels)];
      }
      y.values.push_back(static_cast<double>(sum / static_cast<long double>(positions)));
    }
    return y;
  };
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{1, 1, 1, 1}, Shape{3, 7, 1, 2},
                             Shape{2, 5, 6, 1}, Shape{2, 9, 4}, Shape{1, 1, 3},
                             Shape{1, 40, 33, 3}, Shape{0, 2, 2, 3}, Shape{2, 2, 2, 0}}) {
    for (bool keep : {false, true}) {
      c.uses.push_back({GlobalAvgPool{.keep_dims = keep}, {{shape}}});
    }
  }
  c.large = {{GlobalAvgPool{}, {{{7, 30, 31, 20}}}}};
  c.bench = {{GlobalAvgPool{}, {{{64, 8, 8, 64}}}}};
  c.tolerance = {.value = 4, .gradient = 2};
  c.integer =
      converts_on_grids({4, 3, 5, 3}, {GlobalAvgPool{}, GlobalAvgPool{.keep_dims = true}});
  refuse(c, GlobalAvgPool{},
         {{{f32({2, 3})}, "x must be [n, h, w, c] or [n, l, c], got [2, 3]"},
          {{f32({2, 3, 0, 4})}, "the mean of no elements is undefined, x is [2, 3, 0, 4]"},
          {{f32({2, 0, 4})}, "the mean of no elements is undefined, x is [2, 0, 4]"},
          {{s32({1, 4, 4, 2})}, "expected f32 or f64, got s32"}});
  return c;
}

}  // namespace

std::vector<OpCase> window_cases() { return {max_pool(), avg_pool(), global_avg_pool()}; }

}  // namespace qtape::test
