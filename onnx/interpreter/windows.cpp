// Convolutions and poolings as specified at https://onnx.ai/onnx/operators, for opsets 13
// to 21.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "qtape/onnx/interpreter/call.h"

namespace qtape::interpreter {
namespace {

/// Windows along one or two spatial axes; with one, the first of the two axes has extent 1.
struct Windows2d {
  int64_t n, channels, h, w;
  int64_t kernel_h, kernel_w;
  std::array<int64_t, 2> stride, dilation, begin;
  std::array<int64_t, 2> out;
  Extents spatial;  // extents of y after the channels
};

Windows2d windows_of(const Call& c, const Extents& kernel) {
  const Extents& x = c.in(0).shape;
  const size_t axes = kernel.size();
  require<FormatError>((axes == 1 || axes == 2) && x.size() == axes + 2,
                       "is supported along one or two axes");
  require<FormatError>(
      c.node.text("auto_pad", "NOTSET") == "NOTSET" && c.node.integer("ceil_mode", 0) == 0,
      "auto_pad and ceil_mode are not supported");
  const auto attribute = [&](const char* name, size_t count, int64_t fallback) {
    const Extents all = c.node.integers(name).value_or(Extents(count, fallback));
    require<FormatError>(all.size() == count, "{} has {} numbers, expected {}", name,
                         all.size(), count);
    return all;
  };
  const Extents strides = attribute("strides", axes, 1);
  const Extents dilations = attribute("dilations", axes, 1);
  const Extents pads = attribute("pads", 2 * axes, 0);
  Windows2d g{x[0], x[1], 1, x.back(), 1, kernel.back(), {1, 1}, {1, 1}, {}, {1, 1}, {}};
  if (axes == 2) g.h = x[2], g.kernel_h = kernel[0];
  for (size_t a = 0; a < axes; ++a) {
    const size_t to = a + 2 - axes;
    g.stride[to] = strides[a];
    g.dilation[to] = dilations[a];
    g.begin[to] = pads[a];
    require<FormatError>(strides[a] > 0 && dilations[a] > 0 && kernel[a] > 0,
                         "windows need strides, dilations and extents above 0");
    const int64_t room = x[2 + a] + pads[a] + pads[axes + a] - dilations[a] * (kernel[a] - 1);
    g.out[to] = room <= 0 ? 0 : (room - 1) / strides[a] + 1;
    g.spatial.push_back(g.out[to]);
  }
  return g;
}

/// Calls `body(y, x, tap)` for each tap and each window in which the tap is not in the padding.
/// y and x are the positions of window and element within their channel.
template <class Body>
void for_each_place(const Windows2d& g, const Body& body) {
  for (int64_t a = 0; a < g.kernel_h; ++a) {
    for (int64_t b = 0; b < g.kernel_w; ++b) {
      for (int64_t i = 0; i < g.out[0]; ++i) {
        const int64_t row = i * g.stride[0] - g.begin[0] + a * g.dilation[0];
        if (row < 0 || row >= g.h) continue;
        for (int64_t j = 0; j < g.out[1]; ++j) {
          const int64_t column = j * g.stride[1] - g.begin[1] + b * g.dilation[1];
          if (column < 0 || column >= g.w) continue;
          body(static_cast<size_t>(i * g.out[1] + j), static_cast<size_t>(row * g.w + column),
               static_cast<size_t>(a * g.kernel_w + b));
        }
      }
    }
  }
}

Extents with_channels(const Windows2d& g, int64_t channels) {
  Extents shape = {g.n, channels};
  shape.insert(shape.end(), g.spatial.begin(), g.spatial.end());
  return shape;
}

/// Returns products of windows and filters; elements of the padding count as 0.
template <class T>
OnnxArray filtered(const Call& c, const std::vector<T>& x, const std::vector<T>& w,
                   const std::vector<T>& bias) {
  const Extents& filter = c.in(1).shape;
  require<FormatError>(filter.size() >= 3, "filters need extents [outputs, channels, ...]");
  const Windows2d g = windows_of(c, {filter.begin() + 2, filter.end()});
  const int64_t groups = c.node.integer("group", 1);
  require<FormatError>(groups > 0 && g.channels == groups * filter[1] &&
                           filter[0] % groups == 0 &&
                           (bias.empty() || std::ssize(bias) == filter[0]),
                       "groups, channels and filters do not match");
  const int64_t taps = g.kernel_h * g.kernel_w;
  std::vector<T> y;
  std::vector<Sum<T>> sums(static_cast<size_t>(g.out[0] * g.out[1]));
  for (int64_t n = 0; n < g.n; ++n) {
    for (int64_t o = 0; o < filter[0]; ++o) {
      const int64_t first = o / (filter[0] / groups) * filter[1];
      std::ranges::fill(sums, 0);
      for (int64_t k = 0; k < filter[1]; ++k) {
        const T* image = x.data() + (n * g.channels + first + k) * g.h * g.w;
        const T* weights = w.data() + (o * filter[1] + k) * taps;
        for_each_place(g, [&](size_t at, size_t place, size_t tap) {
          sums[at] += Sum<T>{image[place]} * weights[tap];
        });
      }
      const T added = bias.empty() ? T(0) : bias[static_cast<size_t>(o)];
      for (const Sum<T> sum : sums) y.push_back(static_cast<T>(sum + added));
    }
  }
  return {with_channels(g, filter[0]), std::move(y)};
}

OnnxArray conv(const Call& c) {
  return filtered<float>(c, c.of<float>(0), c.of<float>(1),
                         c.has(2) ? c.of<float>(2) : std::vector<float>{});
}

OnnxArray conv_integer(const Call& c) {
  return filtered<int32_t>(c, differences(c, 0, 2), differences(c, 1, 3), {});
}

/// Applies `reduce` to the elements of each window.
template <class T, class Reduce>
OnnxArray pooled(const Call& c, const Reduce& reduce) {
  const auto kernel = c.node.integers("kernel_shape");
  require<FormatError>(kernel.has_value(), "kernel_shape is missing");
  const Windows2d g = windows_of(c, *kernel);
  const std::vector<T>& x = c.of<T>(0);
  std::vector<T> y;
  std::vector<std::vector<T>> windows(static_cast<size_t>(g.out[0] * g.out[1]));
  for (int64_t image = 0; image < g.n * g.channels; ++image) {
    for (std::vector<T>& each : windows) each.clear();
    for_each_place(g, [&](size_t at, size_t place, size_t) {
      windows[at].push_back(x[static_cast<size_t>(image * g.h * g.w) + place]);
    });
    for (const std::vector<T>& each : windows) y.push_back(reduce(g, each));
  }
  return {with_channels(g, g.channels), std::move(y)};
}

OnnxArray max_pool(const Call& c) {
  c.node.expect("storage_order", 0);
  expect_no_16_bits(c);
  return std::visit(
      [&]<class T>(const std::vector<T>&) {
        return pooled<T>(c, [](const Windows2d&, const std::vector<T>& window) {
          require<FormatError>(!window.empty(), "a window lies entirely in the padding");
          return std::ranges::max(window);
        });
      },
      c.in(0).data);
}

OnnxArray average_pool(const Call& c) {
  const bool padding = c.node.integer("count_include_pad", 0) != 0;
  return pooled<float>(c, [&](const Windows2d& g, const std::vector<float>& window) {
    float sum = 0;
    for (float each : window) sum += each;
    const auto count = padding ? static_cast<size_t>(g.kernel_h * g.kernel_w) : window.size();
    return sum / static_cast<float>(count);
  });
}

OnnxType pooled_type(const OnnxTypes& c) {
  OnnxType type = c.in(0);
  Extents& shape = type.shape;
  const size_t axes = shape.size() - 2;
  const Extents ones(axes, 1);
  const Extents kernel = c.node.integers("kernel_shape").value_or(ones);
  const Extents strides = c.node.integers("strides").value_or(ones);
  const Extents dilations = c.node.integers("dilations").value_or(ones);
  const Extents pads = c.node.integers("pads").value_or(Extents(2 * axes, 0));
  for (size_t k = 0; k < axes; ++k) {
    const int64_t span = (kernel[k] - 1) * dilations[k] + 1;
    shape[k + 2] = (shape[k + 2] + pads[k] + pads[k + axes] - span) / strides[k] + 1;
  }
  return type;
}

OnnxType filtered_type(const OnnxTypes& c) {
  OnnxType type = pooled_type(c);
  type.shape[1] = c.in(1).shape[0];
  return type;
}

OnnxType integer_filtered_type(const OnnxTypes& c) {
  return {onnx::TensorProto::INT32, filtered_type(c).shape};
}

constexpr Operator window_table[] = {{"AveragePool", average_pool, pooled_type},
                                     {"Conv", conv, filtered_type},
                                     {"ConvInteger", conv_integer, integer_filtered_type},
                                     {"MaxPool", max_pool, pooled_type}};

}  // namespace

std::span<const Operator> window_operators() { return window_table; }

}  // namespace qtape::interpreter
