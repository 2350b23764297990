// Cases of convolutions along one and two axes.
#include <array>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

/// Returns the sum for each element of y, of x [n, h, w, c] and filters [o, kh, kw, c /
/// groups].
Values convolve(const Array& x, const Array& filters, int64_t images, int64_t channels,
                int64_t outputs, int64_t groups, const WindowAxis& h, const WindowAxis& w) {
  const int64_t inner = channels / groups;
  Values y;
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t i = 0; i < h.out; ++i) {
      for (int64_t j = 0; j < w.out; ++j) {
        for (int64_t o = 0; o < outputs; ++o) {
          double sum = 0;
          for (int64_t ki = 0; ki < h.kernel; ++ki) {
            for (int64_t kj = 0; kj < w.kernel; ++kj) {
              const int64_t row = i * h.stride + ki * h.dilation - h.begin;
              const int64_t column = j * w.stride + kj * w.dilation - w.begin;
              const bool inside = row >= 0 && row < h.in && column >= 0 && column < w.in;
              for (int64_t c = 0; c < inner && inside; ++c) {
                const int64_t channel = o / (outputs / groups) * inner + c;
                const int64_t at = ((n * h.in + row) * w.in + column) * channels + channel;
                const int64_t weight = ((o * h.kernel + ki) * w.kernel + kj) * inner + c;
                sum += x.values[static_cast<size_t>(at)] *
                       filters.values[static_cast<size_t>(weight)];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

Array conv2d_value(const OpUse& use, Arrays x) {
  const auto& op = std::get<Conv2d>(use.op);
  const Shape& in = x[0].type.shape;
  const Shape& f = x[1].type.shape;
  const auto along = [&](int i) {
    return window_axis(in[1 + i], f[1 + i], op.stride[i], op.dilation[i], op.padding,
                       op.pads_begin[i], op.pads_end[i]);
  };
  const WindowAxis h = along(0);
  const WindowAxis w = along(1);
  return {{x[0].type.dtype, {in[0], h.out, w.out, f[0]}},
          convolve(x[0], x[1], in[0], in[3], f[0], op.groups, h, w)};
}

Array conv1d_value(const OpUse& use, Arrays x) {
  const auto& op = std::get<Conv1d>(use.op);
  const Shape& in = x[0].type.shape;
  const Shape& f = x[1].type.shape;
  const WindowAxis l =
      window_axis(in[1], f[1], op.stride, op.dilation, op.padding, op.pad_begin, op.pad_end);
  return {{x[0].type.dtype, {in[0], l.out, f[0]}},
          convolve(x[0], x[1], in[0], in[2], f[0], op.groups, {}, l)};
}

/// Adds the filters scaled by each element of x to y.
Array conv_transpose_value(const OpUse& use, Arrays x) {
  const auto& op = std::get<ConvTranspose2d>(use.op);
  const Shape& in = x[0].type.shape;
  const Shape& f = x[1].type.shape;
  std::array<int64_t, 2> out{};
  std::array<int64_t, 2> begin{};
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t whole = (in[1 + i] - 1) * op.stride[i] + (f[1 + i] - 1) * op.dilation[i] + 1;
    const bool same = op.padding == Padding::Same;
    out[at] = same ? in[1 + i] * op.stride[i]
                   : whole - op.pads_begin[i] - op.pads_end[i] + op.output_padding[i];
    begin[at] = same ? std::max<int64_t>(0, whole - out[at]) / 2 : op.pads_begin[i];
  }
  Array y{{x[0].type.dtype, {in[0], out[0], out[1], f[0]}}, {}};
  y.values.resize(static_cast<size_t>(y.type.elements()));
  const int64_t outputs = f[0] / op.groups;
  for (int64_t i = 0; i < x[0].type.elements(); ++i) {
    const auto from = unravel(i, in);
    for (int64_t k = 0; k < outputs * f[1] * f[2]; ++k) {
      const int64_t o = from[3] / f[3] * outputs + k / (f[1] * f[2]);
      const int64_t ki = k / f[2] % f[1];
      const int64_t kj = k % f[2];
      const int64_t row = from[1] * op.stride[0] + ki * op.dilation[0] - begin[0];
      const int64_t column = from[2] * op.stride[1] + kj * op.dilation[1] - begin[1];
      if (row < 0 || row >= out[0] || column < 0 || column >= out[1]) continue;
      const int64_t to = ((from[0] * out[0] + row) * out[1] + column) * f[0] + o;
      const int64_t weight = ((o * f[1] + ki) * f[2] + kj) * f[3] + from[3] % f[3];
      y.values[static_cast<size_t>(to)] +=
          x[0].values[static_cast<size_t>(i)] * x[1].values[static_cast<size_t>(weight)];
    }
  }
  return y;
}

template <class X>
struct Extents {
  X op;
  Shape x;
  Shape filters;
};

/// Adds uses with uniform numbers, with integers, which are exact in any order, and with empty
/// tensors.
template <class X>
void add_uses(OpCase& c, const std::vector<Extents<X>>& table) {
  for (const auto& [op, x, filters] : table) {
    c.uses.push_back({op, {{x}, {filters}}});
    c.exact.push_back({op, {{x, -9, 9, Fill::Integers}, {filters, -9, 9, Fill::Integers}}});
  }
  c.exact.push_back({table[0].op, {{table[0].x.with(0, 0)}, {table[0].filters}}});
}

template <class X>
void add_large(std::vector<OpUse>& uses, const Extents<X>& e) {
  uses.push_back({e.op, {{e.x, -3, 4, Fill::Integers}, {e.filters, -3, 4, Fill::Integers}}});
}

/// x -> quantizer -> op with quantized filters -> quantizer. Zero points are not 0.
template <class X>
std::function<NodeId(Graph&)> quantized(const X& op, const Shape& x, const Shape& filters,
                                        const FakeQuantize& weight = {.axis = 0}) {
  return [=](Graph& graph) {
    const NodeId input = graph.add(Input{.shape = x}, {}, "x");
    const NodeId w =
        graph.add(Parameter{.shape = filters, .initializer = init::KaimingNormal{}}, {}, "w");
    const NodeId y = graph.add(op, {add_quantizer(graph, input, affine_ema, "x"),
                                    add_quantizer(graph, w, weight, "w")});
    graph.set_outputs({add_quantizer(graph, y, affine_ema, "y")});
    return y;
  };
}

OpCase conv2d() {
  const Conv2d plain;
  const Conv2d same{.padding = Padding::Same};
  const Conv2d uneven{.padding = Padding::Explicit, .pads_begin = {2, 0}, .pads_end = {1, 3}};
  OpCase c{.value = conv2d_value, .tolerance = {.value = 60, .gradient = 200}};
  add_uses<Conv2d>(
      c,
      {{plain, {2, 4, 5, 3}, {4, 3, 3, 3}},
       {plain, {3, 3, 3, 2}, {5, 1, 1, 2}},
       {plain, {1, 3, 3, 1}, {1, 3, 3, 1}},
       {same, {2, 5, 4, 2}, {3, 3, 2, 2}},
       {{.stride = {2, 3}, .padding = Padding::Same}, {1, 7, 8, 2}, {2, 4, 3, 2}},
       {{.stride = {3, 2}, .padding = Padding::Same}, {2, 5, 5, 1}, {3, 1, 1, 1}},
       {uneven, {2, 4, 3, 2}, {3, 3, 2, 2}},
       {{.stride = {2, 1},
         .padding = Padding::Explicit,
         .pads_begin = {1, 1},
         .pads_end = {1, 1}},
        {2, 6, 5, 3},
        {2, 3, 3, 3}},
       {{.dilation = {2, 3}}, {1, 6, 7, 2}, {3, 2, 3, 2}},
       {{.stride = {2, 2}, .padding = Padding::Same, .dilation = {2, 1}},
        {2, 6, 7, 2},
        {2, 3, 3, 2}},
       {{.groups = 2}, {2, 4, 4, 4}, {6, 3, 3, 2}},
       {{.padding = Padding::Same, .groups = 3}, {2, 3, 4, 3}, {3, 3, 3, 1}},
       {{.stride = {2, 2}, .padding = Padding::Same, .groups = 2}, {1, 5, 5, 2}, {4, 3, 3, 1}},
       {{.groups = 5}, {1, 4, 4, 5}, {5, 1, 1, 1}},
       {{.padding = Padding::Explicit, .pads_begin = {4, 0}, .pads_end = {3, 0}},
        {1, 1, 4, 1},
        {2, 3, 2, 1}},
       {{.stride = {100, 1}}, {1, 4, 4, 1}, {1, 2, 2, 1}},
       {same, {2, 1, 9, 1}, {2, 1, 3, 1}}});
  add_large<Conv2d>(c.large, {same, {12, 14, 14, 17}, {33, 3, 3, 17}});
  add_large<Conv2d>(c.large, {{.stride = {2, 2}, .padding = Padding::Same, .groups = 24},
                              {9, 40, 40, 24},
                              {24, 3, 3, 1}});
  add_large<Conv2d>(c.large, {{.groups = 4}, {5, 20, 20, 32}, {32, 3, 3, 8}});
  add_large<Conv2d>(c.bench, {same, {64, 28, 28, 1}, {16, 3, 3, 1}});
  add_large<Conv2d>(c.bench, {same, {64, 14, 14, 16}, {32, 3, 3, 16}});
  add_large<Conv2d>(
      c.bench, {{.padding = Padding::Same, .groups = 64}, {16, 28, 28, 64}, {64, 3, 3, 1}});
  c.integer = converts(quantized(same, {2, 5, 5, 3}, {4, 3, 3, 3}));
  const TensorType x = f32({2, 5, 6, 4});
  const TensorType w = f32({8, 3, 3, 4});
  const int64_t far = int64_t{1} << 40;
  refuse(c, {x, w},
         {{Conv2d{.groups = 2}, "filters need 2 channels for 4 channels in 2 groups, got 4"},
          {Conv2d{.groups = 3},
           "groups must divide the channels: 3 groups of 4 channels and 8 filters"},
          {Conv2d{.groups = 0}, "groups must be at least 1, got 0"},
          {Conv2d{.dilation = {1, 3}},
           "kernel of 3 with dilation 3 spans 7 along w, padded x has 6"},
          {Conv2d{.stride = {0, 1}}, "stride must be at least 1 along h, got 0"},
          {Conv2d{.dilation = {1, 0}}, "dilation must be at least 1 along w, got 0"},
          {Conv2d{.stride = {1, 1, 1}}, "stride must have 2 numbers, got [1, 1, 1]"},
          {Conv2d{.pads_begin = {1, 0}},
           "padding of 1 and 0 along h needs padding Explicit, got Valid"},
          {Conv2d{.padding = Padding::Explicit, .pads_begin = {far, 0}},
           "padded extents may be at most 2^31 - 1, got 1099511627781"}});
  refuse(
      c, plain,
      {{{f32({5, 6, 4}), w}, "x must be [n, h, w, c], got [5, 6, 4]"},
       {{x, f32({3, 3, 4})}, "filters must be [o, kh, kw, c / groups], got [3, 3, 4]"},
       {{x, f64({8, 3, 3, 4})}, "dtypes differ: f32 and f64"},
       {{s32({2, 5, 6, 4}), s32({8, 3, 3, 4})}, "expected f32 or f64, got s32"},
       {{x, f32({8, 3, 3, 3})}, "filters need 4 channels for 4 channels in 1 group, got 3"},
       {{x, f32({8, 6, 3, 4})}, "kernel of 6 with dilation 1 spans 6 along h, padded x has 5"},
       {{f32({2, 0, 6, 4}), w}, "x needs an extent of at least 1 along h, got 0"},
       {{f32({2, 5, 6, 0}), f32({8, 3, 3, 0})},
        "channels must be at least 1, got 0 and 8 filters"},
       {{x, f32({0, 3, 3, 4})}, "channels must be at least 1, got 4 and 0 filters"},
       {{x, f32({8, 3, 0, 4})}, "kernel must be at least 1 along w, got 0"}});
  refuse(c, Conv2d{.groups = 4},
         {{{x, f32({6, 3, 3, 1})},
           "groups must divide the channels: 4 groups of 4 channels and 6 filters"}});
  return c;
}

OpCase conv1d() {
  const Conv1d plain;
  const Conv1d same{.padding = Padding::Same};
  OpCase c{.value = conv1d_value, .tolerance = {.value = 60, .gradient = 200}};
  add_uses<Conv1d>(c,
                   {{plain, {2, 6, 3}, {4, 3, 3}},
                    {same, {1, 5, 2}, {3, 4, 2}},
                    {{.stride = 2, .padding = Padding::Explicit, .pad_begin = 2, .pad_end = 0},
                     {2, 7, 2},
                     {3, 3, 2}},
                    {{.dilation = 3}, {1, 9, 2}, {2, 3, 2}},
                    {{.padding = Padding::Same, .groups = 4}, {2, 5, 4}, {4, 3, 1}},
                    {{.groups = 2}, {2, 5, 4}, {2, 1, 2}}});
  add_large<Conv1d>(c.bench, {same, {32, 200, 32}, {64, 5, 32}});
  c.integer = converts(quantized(same, {2, 9, 3}, {4, 3, 3}));
  refuse(
      c, {f32({2, 5, 4}), f32({8, 3, 4})},
      {{Conv1d{.padding = Padding::Same, .dilation = int64_t{1} << 60},
        "windows span more than 2^48 elements along l: extent 5, kernel 3, stride 1, dilation "
        "1152921504606846976, padding 0 and 0"},
       {Conv1d{.stride = -1}, "stride must be at least 1 along l, got -1"}});
  refuse(c, plain,
         {{{f32({2, 5, 6, 4}), f32({8, 3, 4})}, "x must be [n, l, c], got [2, 5, 6, 4]"},
          {{f32({2, 5, 4}), f32({8, 3, 3, 4})},
           "filters must be [o, k, c / groups], got [8, 3, 3, 4]"},
          {{f32({2, 5, 4}), f32({8, 6, 4})},
           "kernel of 6 with dilation 1 spans 6 along l, padded x has 5"}});
  return c;
}

OpCase conv_transpose2d() {
  const ConvTranspose2d plain;
  const ConvTranspose2d same{.stride = {2, 2}, .padding = Padding::Same};
  OpCase c{.value = conv_transpose_value, .tolerance = {.value = 60, .gradient = 200}};
  add_uses<ConvTranspose2d>(
      c, {{plain, {2, 3, 4, 3}, {4, 3, 2, 3}},
          {same, {2, 3, 4, 2}, {3, 3, 3, 2}},
          {{.stride = {3, 2}, .padding = Padding::Same}, {1, 3, 2, 2}, {2, 2, 1, 2}},
          {{.stride = {2, 3},
            .padding = Padding::Explicit,
            .pads_begin = {1, 0},
            .pads_end = {0, 2},
            .output_padding = {1, 2}},
           {2, 3, 3, 2},
           {3, 3, 4, 2}},
          {{.stride = {2, 2}, .dilation = {2, 3}}, {1, 2, 3, 2}, {2, 2, 2, 2}},
          {{.stride = {2, 1}, .groups = 2}, {2, 3, 3, 4}, {6, 3, 3, 2}},
          {{.stride = {2, 2}, .groups = 3}, {2, 3, 3, 3}, {3, 3, 3, 1}},
          {plain, {1, 3, 3, 2}, {2, 1, 1, 2}}});
  add_large<ConvTranspose2d>(c.bench, {same, {16, 14, 14, 32}, {16, 4, 4, 32}});
  c.integer = refused(no_integers,
                      quantized(same, {2, 3, 3, 2}, {3, 3, 3, 2}, {.scale_mode = Fixed{}}));
  const TensorType x = f32({2, 3, 4, 4});
  const TensorType w = f32({8, 3, 3, 4});
  refuse(
      c, {x, w},
      {{ConvTranspose2d{.output_padding = {1, 0}},
        "output_padding must be at least 0 and below the stride along h, got 1 and 1"},
       {ConvTranspose2d{.stride = {2, 2}, .padding = Padding::Same, .output_padding = {1, 0}},
        "output_padding of 1 along h needs padding Valid or Explicit"},
       {ConvTranspose2d{.padding = Padding::Explicit, .pads_begin = {5, 0}},
        "padding of 5 and 0 leaves none of the 5 elements along h"},
       {ConvTranspose2d{.stride = {int64_t{1} << 48, 1}},
        "y has more than 2^48 elements along h: extent 3, stride 281474976710656"}});
  refuse(
      c, plain,
      {{{f32({2, 3, 0, 4}), w}, "x needs an extent of at least 1 along w, got 0"},
       {{x, f32({8, 3, 3, 2})}, "filters need 4 channels for 4 channels in 1 group, got 2"}});
  return c;
}

}  // namespace

std::vector<OpCase> convolution_cases() { return {conv2d(), conv1d(), conv_transpose2d()}; }

}  // namespace qtape::test
