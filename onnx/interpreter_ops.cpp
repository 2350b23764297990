// Each operator as specified at https://onnx.ai/onnx/operators, for opsets 13 to 21.
#include "qtape/onnx/interpreter_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace qtape {
namespace {

using Extents = std::vector<int64_t>;

/// A node with its operands.
struct Call {
  const OnnxNode& node;
  const OnnxOperands& operands;

  bool has(size_t k) const { return k < operands.size() && operands[k] != nullptr; }
  const OnnxArray& in(size_t k) const {
    require<FormatError>(has(k), "input {} is missing", k);
    return *operands[k];
  }
  template <class T>
  const std::vector<T>& of(size_t k) const {
    const auto* found = std::get_if<std::vector<T>>(&in(k).data);
    require<FormatError>(found != nullptr, "input {} has elements of another type", k);
    return *found;
  }
  /// Returns the only element of input `k`, or `usual` if it is omitted.
  template <class T>
  T scalar(size_t k, T usual) const {
    if (!has(k)) return usual;
    require<FormatError>(of<T>(k).size() == 1, "input {} must be one number", k);
    return of<T>(k)[0];
  }
  /// Returns integers that are an attribute in old opsets and an input in later ones.
  std::optional<Extents> numbers(size_t k, const char* name) const {
    if (has(k)) return of<int64_t>(k);
    return node.integers(name);
  }
};

int64_t axis_of(int64_t axis, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  require<FormatError>(axis >= -r && axis < r, "axis {} is out of range for rank {}", axis, r);
  return axis < 0 ? axis + r : axis;
}

Extents strides_of(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (size_t a = shape.size(); a > 1; --a) strides[a - 2] = strides[a - 1] * shape[a - 1];
  return strides;
}

/// Calls `body(index)` for all indices of a tensor, in row-major order.
template <class Body>
void for_each_index(const Extents& shape, const Body& body) {
  if (onnx_elements(shape) == 0) return;
  Extents index(shape.size(), 0);
  while (true) {
    body(index);
    size_t a = shape.size();
    while (a > 0 && ++index[a - 1] == shape[a - 1]) index[--a] = 0;
    if (a == 0) return;
  }
}

/// Returns y of `shape`, whose element at each index is the element of x at `place(index)`.
template <class Place>
OnnxArray moved(const OnnxArray& x, const Extents& shape, const Place& place) {
  return std::visit(
      [&](const auto& from) {
        std::decay_t<decltype(from)> to;
        to.reserve(static_cast<size_t>(onnx_elements(shape)));
        for_each_index(shape, [&](const Extents& index) {
          to.push_back(from[static_cast<size_t>(place(index))]);
        });
        return OnnxArray{shape, std::move(to)};
      },
      x.data);
}

OnnxArray transpose(const Call& c) {
  const OnnxArray& x = c.in(0);
  Extents axes(x.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  const Extents perm = c.node.integers("perm").value_or(Extents(axes.rbegin(), axes.rend()));
  require<FormatError>(std::ranges::is_permutation(perm, axes),
                       "perm is no permutation of the axes");
  const Extents strides = strides_of(x.shape);
  Extents shape;
  for (int64_t a : perm) shape.push_back(x.shape[static_cast<size_t>(a)]);
  return moved(x, shape, [&](const Extents& index) {
    int64_t at = 0;
    for (size_t a = 0; a < index.size(); ++a) {
      at += index[a] * strides[static_cast<size_t>(perm[a])];
    }
    return at;
  });
}

OnnxArray identity(const Call& c) { return c.in(0); }

OnnxArray reshape(const Call& c) {
  OnnxArray y = c.in(0);
  const int64_t n = y.elements();
  Extents shape = c.of<int64_t>(1);
  c.node.expect("allowzero", 0);
  require<FormatError>(std::ranges::count(shape, -1) <= 1, "the new shape has several -1");
  int64_t known = 1;
  for (size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 0 && a < y.shape.size()) shape[a] = y.shape[a];
    if (shape[a] != -1) known *= shape[a];
  }
  for (int64_t& each : shape) {
    if (each == -1) each = known == 0 ? 0 : n / known;
  }
  require<FormatError>(onnx_elements(shape) == n, "the new shape has other elements");
  y.shape = shape;
  return y;
}

template <class To>
std::vector<To> converted(const auto& from) {
  std::vector<To> to;
  for (const auto each : from) to.push_back(static_cast<To>(each));
  return to;
}

OnnxArray cast(const Call& c) {
  using Proto = onnx::TensorProto;
  const OnnxArray& x = c.in(0);
  const int64_t to = c.node.integer("to", 0);
  return std::visit(
      [&](const auto& from) -> OnnxArray {
        switch (to) {
          case Proto::FLOAT:
            return {x.shape, converted<float>(from)};
          case Proto::INT8:
            return {x.shape, converted<int8_t>(from)};
          case Proto::UINT8:
            return {x.shape, converted<uint8_t>(from)};
          case Proto::INT32:
            return {x.shape, converted<int32_t>(from)};
          default:
            fail<FormatError>("casts to the element type {} are not computed", to);
        }
      },
      x.data);
}

/// Returns the broadcast shape of two operands, as in NumPy.
Extents broadcast(const Extents& a, const Extents& b) {
  Extents shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    require<FormatError>(left == right || left == 1 || right == 1,
                         "extents {} and {} do not go together", left, right);
    shape[shape.size() - 1 - i] = left == 1 ? right : left;
  }
  return shape;
}

/// Returns the position in an operand of `shape` for an index of the broadcast shape.
int64_t broadcast_place(const Extents& shape, const Extents& index) {
  int64_t at = 0;
  for (size_t a = 0; a < shape.size(); ++a) {
    const int64_t i = index[index.size() - shape.size() + a];
    at = at * shape[a] + (shape[a] == 1 ? 0 : i);
  }
  return at;
}

template <class T, class Combine>
OnnxArray combined(const Call& c, const Combine& combine) {
  const std::vector<T>& a = c.of<T>(0);
  const std::vector<T>& b = c.of<T>(1);
  const Extents shape = broadcast(c.in(0).shape, c.in(1).shape);
  std::vector<T> y;
  if (shape == c.in(0).shape && (b.size() == 1 || shape == c.in(1).shape)) {
    for (size_t i = 0; i < a.size(); ++i) y.push_back(combine(a[i], b[b.size() == 1 ? 0 : i]));
    return {shape, std::move(y)};
  }
  for_each_index(shape, [&](const Extents& index) {
    y.push_back(combine(a[static_cast<size_t>(broadcast_place(c.in(0).shape, index))],
                        b[static_cast<size_t>(broadcast_place(c.in(1).shape, index))]));
  });
  return {shape, std::move(y)};
}

template <class Combine>
OnnxArray arithmetic(const Call& c, const Combine& combine) {
  if (std::holds_alternative<std::vector<float>>(c.in(0).data)) {
    return combined<float>(c, combine);
  }
  // In 64 bits: an overflow of 32 bits is undefined in ONNX, but must be defined here.
  return combined<int32_t>(
      c, [&](int64_t a, int64_t b) { return static_cast<int32_t>(combine(a, b)); });
}

OnnxArray add(const Call& c) {
  return arithmetic(c, [](auto a, auto b) { return a + b; });
}
OnnxArray subtract(const Call& c) {
  return arithmetic(c, [](auto a, auto b) { return a - b; });
}
OnnxArray multiply(const Call& c) {
  return arithmetic(c, [](auto a, auto b) { return a * b; });
}

OnnxArray clip(const Call& c) {
  return std::visit(
      [&]<class T>(std::vector<T> y) {
        const T low = c.scalar<T>(1, std::numeric_limits<T>::lowest());
        const T high = c.scalar<T>(2, std::numeric_limits<T>::max());
        for (T& each : y) each = std::min(std::max(each, low), high);
        return OnnxArray{c.in(0).shape, std::move(y)};
      },
      c.in(0).data);
}

/// saturate(round(x / scale) + zero), ties to even.
template <class T>
OnnxArray quantized(const Call& c) {
  const float scale = c.scalar<float>(1, 1);
  const auto zero = static_cast<float>(c.scalar<T>(2, 0));
  std::vector<T> y;
  for (float x : c.of<float>(0)) {
    const float code = std::nearbyint(x / scale) + zero;
    const auto low = static_cast<float>(std::numeric_limits<T>::lowest());
    const auto high = static_cast<float>(std::numeric_limits<T>::max());
    require<FormatError>(!std::isnan(code), "NaN has no code");
    y.push_back(static_cast<T>(std::min(std::max(code, low), high)));
  }
  return {c.in(0).shape, std::move(y)};
}

OnnxArray quantize(const Call& c) {
  c.node.expect("output_dtype", 0);
  c.node.expect("block_size", 0);
  if (!c.has(2)) return quantized<uint8_t>(c);
  return std::visit(
      [&]<class T>(const std::vector<T>&) -> OnnxArray {
        if constexpr (sizeof(T) <= 2) return quantized<T>(c);
        fail<FormatError>("zero points must have 8 or 16 bits");
      },
      c.in(2).data);
}

OnnxArray dequantize(const Call& c) {
  const OnnxArray& x = c.in(0);
  const std::vector<float>& scales = c.of<float>(1);
  c.node.expect("block_size", 0);
  int64_t behind = x.elements();
  if (scales.size() > 1) {
    const auto axis = static_cast<size_t>(axis_of(c.node.integer("axis", 1), x.shape.size()));
    require<FormatError>(std::ssize(scales) == x.shape[axis],
                         "{} scales are given for {} indices", scales.size(), x.shape[axis]);
    behind = strides_of(x.shape)[axis];
  }
  require<FormatError>(!scales.empty(), "there is no scale");
  return std::visit(
      [&]<class T>(const std::vector<T>& codes) {
        std::vector<T> zeros(scales.size(), 0);
        if (c.has(2)) zeros = c.of<T>(2);
        require<FormatError>(zeros.size() == scales.size(), "{} zero points, {} scales",
                             zeros.size(), scales.size());
        std::vector<float> y;
        for (size_t i = 0; i < codes.size(); ++i) {
          const size_t k = behind == 0 ? 0 : i / static_cast<size_t>(behind) % scales.size();
          if constexpr (std::is_floating_point_v<T>) {
            y.push_back((codes[i] - zeros[k]) * scales[k]);
          } else {
            y.push_back(static_cast<float>(int64_t{codes[i]} - int64_t{zeros[k]}) * scales[k]);
          }
        }
        return OnnxArray{x.shape, std::move(y)};
      },
      x.data);
}

/// Returns codes minus their zero point, for s8 and u8.
std::vector<int32_t> differences(const Call& c, size_t codes, size_t zero) {
  const auto less = [&]<class T>(const std::vector<T>& from) {
    const int32_t z = c.scalar<T>(zero, 0);
    std::vector<int32_t> to;
    for (T each : from) to.push_back(each - z);
    return to;
  };
  if (std::holds_alternative<std::vector<int8_t>>(c.in(codes).data)) {
    return less(c.of<int8_t>(codes));
  }
  return less(c.of<uint8_t>(codes));
}

/// Type in which products of T are added: 64-bit integers, whose sum must fit 32 bits.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, T>;

/// Returns a [..., k] times b [k, n].
template <class T>
OnnxArray product(const Call& c, const std::vector<T>& a, const std::vector<T>& b) {
  const Extents& left = c.in(0).shape;
  const Extents& right = c.in(1).shape;
  require<FormatError>(!left.empty() && right.size() == 2 && left.back() == right[0],
                       "the extents of the operands do not go together");
  const auto k = static_cast<size_t>(right[0]), n = static_cast<size_t>(right[1]);
  Extents shape = left;
  shape.back() = right[1];
  std::vector<T> y;
  for (size_t row = 0; k > 0 && row < a.size() / k; ++row) {
    std::vector<Sum<T>> sums(n, 0);
    for (size_t i = 0; i < k; ++i) {
      for (size_t j = 0; j < n; ++j) sums[j] += Sum<T>{a[row * k + i]} * b[i * n + j];
    }
    for (const Sum<T> sum : sums) y.push_back(static_cast<T>(sum));
  }
  y.resize(static_cast<size_t>(onnx_elements(shape)));
  return {shape, std::move(y)};
}

OnnxArray mat_mul(const Call& c) { return product(c, c.of<float>(0), c.of<float>(1)); }

OnnxArray mat_mul_integer(const Call& c) {
  return product(c, differences(c, 0, 2), differences(c, 1, 3));
}

OnnxArray gemm(const Call& c) {
  require<FormatError>(c.node.integer("transA", 0) == 0 && c.node.integer("transB", 0) == 1 &&
                           c.node.real("alpha", 1) == 1 && c.node.real("beta", 1) == 1,
                       "is computed as A B' + C alone");
  const Extents& w = c.in(1).shape;
  require<FormatError>(w.size() == 2, "B must be a matrix");
  const OnnxArray b = moved(c.in(1), {w[1], w[0]},
                            [&](const Extents& index) { return index[1] * w[1] + index[0]; });
  const OnnxArray y = mat_mul({c.node, {&c.in(0), &b}});
  return c.has(2) ? add({c.node, {&y, &c.in(2)}}) : y;
}

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
                       "is computed along one axis or two");
  require<FormatError>(
      c.node.text("auto_pad", "NOTSET") == "NOTSET" && c.node.integer("ceil_mode", 0) == 0,
      "auto_pad and ceil_mode are not computed");
  const auto attribute = [&](const char* name, size_t count, int64_t usual) {
    const Extents all = c.node.integers(name).value_or(Extents(count, usual));
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
                       "groups, channels and filters do not go together");
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

/// Rejects 16-bit integers, for operators of which no version supports them.
void expect_no_16_bits(const Call& c) {
  std::visit(
      []<class T>(const std::vector<T>&) {
        require<FormatError>(sizeof(T) != 2, "takes no elements of 16 bits");
      },
      c.in(0).data);
}

OnnxArray max_pool(const Call& c) {
  c.node.expect("storage_order", 0);
  expect_no_16_bits(c);
  return std::visit(
      [&]<class T>(const std::vector<T>&) {
        return pooled<T>(c, [](const Windows2d&, const std::vector<T>& window) {
          require<FormatError>(!window.empty(), "a window lies in the padding");
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

OnnxArray concat(const Call& c) {
  const size_t rank = c.in(0).shape.size();
  const auto axis = static_cast<size_t>(axis_of(c.node.integer("axis", 0), rank));
  Extents shape = c.in(0).shape;
  shape[axis] = 0;
  for (size_t k = 0; k < c.operands.size(); ++k) {
    const Extents& each = c.in(k).shape;
    require<FormatError>(each.size() == rank, "input {} has rank {}, expected {}", k,
                         each.size(), rank);
    for (size_t a = 0; a < rank; ++a) {
      require<FormatError>(a == axis || each[a] == shape[a],
                           "input {} has {} on axis {}, expected {}", k, each[a], a, shape[a]);
    }
    shape[axis] += each[axis];
  }
  return std::visit(
      [&]<class T>(const std::vector<T>&) {
        std::vector<T> y;
        int64_t rows = 1;
        for (size_t a = 0; a < axis; ++a) rows *= shape[a];
        for (int64_t row = 0; row < rows; ++row) {
          for (size_t k = 0; k < c.operands.size(); ++k) {
            const std::vector<T>& from = c.of<T>(k);
            const int64_t width = std::ssize(from) / std::max<int64_t>(1, rows);
            y.insert(y.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
          }
        }
        return OnnxArray{shape, std::move(y)};
      },
      c.in(0).data);
}

OnnxArray slice(const Call& c) {
  const OnnxArray& x = c.in(0);
  const Extents &starts = c.of<int64_t>(1), &ends = c.of<int64_t>(2), &axes = c.of<int64_t>(3);
  require<FormatError>(!c.has(4), "steps are not computed");
  require<FormatError>(starts.size() == ends.size() && ends.size() == axes.size(),
                       "starts, ends and axes have other counts");
  Extents shape = x.shape, first(shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<size_t>(axis_of(axes[i], shape.size()));
    const auto limited = [&](int64_t v) {
      return std::clamp<int64_t>(v < 0 ? v + x.shape[a] : v, 0, x.shape[a]);
    };
    first[a] = limited(starts[i]);
    shape[a] = std::max<int64_t>(0, limited(ends[i]) - first[a]);
  }
  const Extents strides = strides_of(x.shape);
  return moved(x, shape, [&](const Extents& index) {
    int64_t at = 0;
    for (size_t a = 0; a < index.size(); ++a) at += (index[a] + first[a]) * strides[a];
    return at;
  });
}

OnnxArray gather(const Call& c) {
  const OnnxArray& x = c.in(0);
  const auto axis = static_cast<size_t>(axis_of(c.node.integer("axis", 0), x.shape.size()));
  const Extents places = std::holds_alternative<std::vector<int32_t>>(c.in(1).data)
                             ? converted<int64_t>(c.of<int32_t>(1))
                             : c.of<int64_t>(1);
  for (int64_t each : places) {
    require<FormatError>(each >= -x.shape[axis] && each < x.shape[axis],
                         "index {} is out of range", each);
  }
  const auto front = static_cast<std::ptrdiff_t>(axis);
  const auto middle = static_cast<std::ptrdiff_t>(c.in(1).shape.size());
  Extents shape(x.shape.begin(), x.shape.begin() + front);
  shape.insert(shape.end(), c.in(1).shape.begin(), c.in(1).shape.end());
  shape.insert(shape.end(), x.shape.begin() + front + 1, x.shape.end());
  return moved(x, shape, [&](const Extents& index) {
    int64_t at = 0;
    for (std::ptrdiff_t a = 0; a < front; ++a) at = at * x.shape[size_t(a)] + index[size_t(a)];
    const int64_t place = places[static_cast<size_t>(broadcast_place(
        c.in(1).shape, {index.begin() + front, index.begin() + front + middle}))];
    at = at * x.shape[axis] + (place < 0 ? place + x.shape[axis] : place);
    for (size_t a = axis + 1; a < x.shape.size(); ++a) {
      at = at * x.shape[a] + index[a + static_cast<size_t>(middle) - 1];
    }
    return at;
  });
}

OnnxArray pad(const Call& c) {
  const OnnxArray& x = c.in(0);
  const Extents& pads = c.of<int64_t>(1);
  const size_t rank = x.shape.size();
  require<FormatError>(c.node.text("mode", "constant") == "constant" && !c.has(3),
                       "is computed with a constant on all axes alone");
  require<FormatError>(pads.size() == 2 * rank, "{} pads for rank {}", pads.size(), rank);
  Extents shape = x.shape;
  for (size_t a = 0; a < rank; ++a) {
    shape[a] += pads[a] + pads[rank + a];
    require<FormatError>(shape[a] >= 0, "axis {} has {} left", a, shape[a]);
  }
  return std::visit(
      [&]<class T>(const std::vector<T>& from) {
        std::vector<T> y;
        for_each_index(shape, [&](const Extents& index) {
          int64_t at = 0;
          bool inside = true;
          for (size_t a = 0; a < rank; ++a) {
            const int64_t i = index[a] - pads[a];
            inside = inside && i >= 0 && i < x.shape[a];
            at = at * x.shape[a] + i;
          }
          y.push_back(inside ? from[static_cast<size_t>(at)] : c.scalar<T>(2, 0));
        });
        return OnnxArray{shape, std::move(y)};
      },
      x.data);
}

/// Applies `reduce` to all elements along the axes.
template <class T, class Reduce>
OnnxArray reduced(const Call& c, const Reduce& reduce) {
  const OnnxArray& x = c.in(0);
  const std::vector<T>& from = c.of<T>(0);
  c.node.expect("noop_with_empty_axes", 0);
  std::vector<bool> gone(x.shape.size(), false);
  const Extents axes = c.numbers(1, "axes").value_or(Extents{});
  for (int64_t a : axes) gone[static_cast<size_t>(axis_of(a, gone.size()))] = true;
  if (axes.empty()) gone.assign(gone.size(), true);
  Extents kept = x.shape;
  for (size_t a = 0; a < gone.size(); ++a) {
    if (gone[a]) kept[a] = 1;
  }
  std::vector<std::vector<T>> parts(static_cast<size_t>(onnx_elements(kept)));
  size_t at = 0;
  for_each_index(x.shape, [&](const Extents& index) {
    parts[static_cast<size_t>(broadcast_place(kept, index))].push_back(from[at++]);
  });
  std::vector<T> y;
  for (const std::vector<T>& part : parts) y.push_back(reduce(part));
  if (c.node.integer("keepdims", 1) == 0) {
    Extents left;
    for (size_t a = 0; a < gone.size(); ++a) {
      if (!gone[a]) left.push_back(kept[a]);
    }
    kept = left;
  }
  return {kept, std::move(y)};
}

OnnxArray reduce_max(const Call& c) {
  expect_no_16_bits(c);
  return std::visit(
      [&]<class T>(const std::vector<T>&) {
        return reduced<T>(c, [](const std::vector<T>& part) {
          require<FormatError>(!part.empty(), "there is no largest of nothing");
          return std::ranges::max(part);
        });
      },
      c.in(0).data);
}

OnnxArray reduce_sum(const Call& c) {
  if (std::holds_alternative<std::vector<float>>(c.in(0).data)) {
    return reduced<float>(c, [](const std::vector<float>& part) {
      return std::accumulate(part.begin(), part.end(), 0.0f);
    });
  }
  return reduced<int32_t>(c, [](const std::vector<int32_t>& part) {
    return static_cast<int32_t>(std::accumulate(part.begin(), part.end(), int64_t{0}));
  });
}

struct Operator {
  std::string_view name;
  OnnxArray (*compute)(const Call&);
};

constexpr Operator operators[] = {{"Add", add},
                                  {"AveragePool", average_pool},
                                  {"Cast", cast},
                                  {"Clip", clip},
                                  {"Concat", concat},
                                  {"Conv", conv},
                                  {"ConvInteger", conv_integer},
                                  {"DequantizeLinear", dequantize},
                                  {"Gather", gather},
                                  {"Gemm", gemm},
                                  {"Identity", identity},
                                  {"MatMul", mat_mul},
                                  {"MatMulInteger", mat_mul_integer},
                                  {"MaxPool", max_pool},
                                  {"Mul", multiply},
                                  {"Pad", pad},
                                  {"QuantizeLinear", quantize},
                                  {"ReduceMax", reduce_max},
                                  {"ReduceSum", reduce_sum},
                                  {"Reshape", reshape},
                                  {"Slice", slice},
                                  {"Sub", subtract},
                                  {"Transpose", transpose}};

}  // namespace

OnnxArray compute_onnx(const OnnxNode& node, const OnnxOperands& operands) {
  const auto found = std::ranges::find(operators, node.type(), &Operator::name);
  require<FormatError>(found != std::end(operators), "the operator is not computed");
  return found->compute({node, operands});
}

}  // namespace qtape
