// Windows that slide over the spatial axes of NHWC and NLC tensors: their attributes and
// positions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "qtape/core/enum_names.h"
#include "qtape/core/fields.h"
#include "qtape/core/types.h"

namespace qtape {

/// Padding of x. With `Same`, as in TensorFlow, there are ceil(in / stride) windows; if the
/// amount of padding is odd, the larger half is at the end.
enum class Padding : uint8_t { Valid, Same, Explicit };
template <>
inline constexpr auto enum_names<Padding> =
    std::array<std::string_view, 3>{"Valid", "Same", "Explicit"};

/// Attributes of the windows along one axis.
struct WindowAttributes {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  Padding padding = Padding::Valid;
  int64_t pad_begin = 0;  ///< with Padding::Explicit; else 0
  int64_t pad_end = 0;
};

/// Windows along one axis: element j of window i is x[i stride + j dilation - begin], or
/// padding if that index is outside [0, in).
struct WindowAxis {
  int64_t in = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;  ///< padding before x; 0 or more
  int64_t end = 0;    ///< padding after x; 0 or more
  int64_t out = 1;    ///< number of windows, at least 1

  /// Distance from the first element of a window to its last, both included.
  int64_t span() const { return (kernel - 1) * dilation + 1; }
  /// Start of window `i` in x; negative within the padding.
  int64_t start(int64_t i) const { return i * stride - begin; }
  bool operator==(const WindowAxis&) const = default;
};

/// Windows along an axis of `in` elements, named `axis` in messages. Throws GraphError for an
/// extent, kernel, stride or dilation below 1, for negative padding, for nonzero padding
/// without Padding::Explicit, for a kernel larger than the padded axis, and for a span of more
/// than Shape::max_elements.
WindowAxis window_axis(std::string_view axis, int64_t in, const WindowAttributes& attributes);

/// Windows of the convolution that a transposed convolution with `out` input elements reverses.
/// The axis has (out - 1) stride + span - padding + extra elements; with Padding::Same out
/// stride, with Padding::Valid at least that many. Throws as `window_axis` does, and for an
/// extra outside [0, stride).
WindowAxis transposed_axis(std::string_view axis, int64_t out,
                           const WindowAttributes& attributes, int64_t extra);

/// Windows of [n, h, w, c] or, with `h` of extent 1, of [n, l, c].
struct Window {
  WindowAxis h;
  WindowAxis w;

  /// Elements of one window in one channel.
  int64_t kernel() const { return h.kernel * w.kernel; }
  /// Windows in one channel of one image.
  int64_t outputs() const { return h.out * w.out; }
  bool has_padding() const { return h.begin > 0 || h.end > 0 || w.begin > 0 || w.end > 0; }
  bool operator==(const Window&) const = default;
};

/// Throws GraphError unless `numbers`, the attribute `name`, has two extents.
void check_pair(std::string_view name, const Shape& numbers);

/// Attributes of the windows of an op along axis `i` of h and w. The op has `padding` and, as
/// Shape [h, w], `stride`, `pads_begin`, `pads_end` and optionally `dilation`. Throws
/// GraphError unless each of these has two extents.
template <class X>
WindowAttributes window_attributes_2d(const X& op, int i, int64_t kernel) {
  check_pair("stride", op.stride);
  check_pair("pads_begin", op.pads_begin);
  check_pair("pads_end", op.pads_end);
  WindowAttributes a{.kernel = kernel,
                     .stride = op.stride[i],
                     .padding = op.padding,
                     .pad_begin = op.pads_begin[i],
                     .pad_end = op.pads_end[i]};
  if constexpr (requires { op.dilation; }) {
    check_pair("dilation", op.dilation);
    a.dilation = op.dilation[i];
  }
  return a;
}

/// Windows of such an op over x [n, h, w, c], whose rank must be 4. Throws as `window_axis`
/// does.
template <class X>
Window window_2d(const X& op, const Shape& x, int64_t kernel_h, int64_t kernel_w) {
  return {window_axis("h", x[1], window_attributes_2d(op, 0, kernel_h)),
          window_axis("w", x[2], window_attributes_2d(op, 1, kernel_w))};
}

/// Windows along w of an op over x [n, l, c], whose rank must be 3. The op has `padding` and
/// the numbers `stride`, `pad_begin`, `pad_end` and optionally `dilation`. Throws as
/// `window_axis` does.
template <class X>
Window window_1d(const X& op, const Shape& x, int64_t kernel) {
  WindowAttributes a{.kernel = kernel,
                     .stride = op.stride,
                     .padding = op.padding,
                     .pad_begin = op.pad_begin,
                     .pad_end = op.pad_end};
  if constexpr (requires { op.dilation; }) a.dilation = op.dilation;
  return {{}, window_axis("l", x[1], a)};
}

/// Fields of the attributes of windows over two axes, except dilation, for `fields()`.
template <class X>
constexpr auto window_fields_2d() {
  return std::tuple{
      field("stride", &X::stride, "steps between windows [h, w], each at least 1"),
      field("padding", &X::padding, "Valid: none; Same: ceil(in / stride) windows; Explicit"),
      field("pads_begin", &X::pads_begin, "with Explicit: padding [top, left]"),
      field("pads_end", &X::pads_end, "with Explicit: padding [bottom, right]")};
}

/// Fields of the attributes of windows over one axis, except dilation, for `fields()`.
template <class X>
constexpr auto window_fields_1d() {
  return std::tuple{
      field("stride", &X::stride, "steps between windows, at least 1"),
      field("padding", &X::padding, "Valid: none; Same: ceil(in / stride) windows; Explicit"),
      field("pad_begin", &X::pad_begin, "with Explicit: padding before x"),
      field("pad_end", &X::pad_end, "with Explicit: padding after x")};
}

}  // namespace qtape
