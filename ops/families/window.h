// Windows that slide over the spatial axes of NHWC and NLC tensors: the attributes that
// describe them, and where they lie.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "qtape/core/enum_names.h"
#include "qtape/core/fields.h"
#include "qtape/core/types.h"

namespace qtape {

/// What lies around x. With `Same`, as in TensorFlow, there are ceil(in / stride) windows, and
/// of an odd amount of padding the larger half is at the end.
enum class Padding : uint8_t { Valid, Same, Explicit };
template <>
inline constexpr auto enum_names<Padding> =
    std::array<std::string_view, 3>{"Valid", "Same", "Explicit"};

/// What attributes say of the windows along one axis.
struct WindowAttributes {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  Padding padding = Padding::Valid;
  int64_t pad_begin = 0;  ///< with Padding::Explicit, else 0
  int64_t pad_end = 0;
};

/// The windows along one axis: element j of window i is x[i stride + j dilation - begin], and
/// padding where that is outside of [0, in).
struct WindowAxis {
  int64_t in = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;  ///< padding before x; 0 or more
  int64_t end = 0;    ///< padding after x; 0 or more
  int64_t out = 1;    ///< how many windows there are; at least 1

  /// From the first element of a window to its last, both included.
  int64_t span() const { return (kernel - 1) * dilation + 1; }
  /// Where window `i` begins in x; negative in the padding.
  int64_t start(int64_t i) const { return i * stride - begin; }
  bool operator==(const WindowAxis&) const = default;
};

/// The windows along an axis of `in` elements, which messages call `axis`. Throws GraphError
/// for an extent, a kernel, a stride or a dilation below 1, for negative padding or padding
/// that is given without Padding::Explicit, for a kernel that is larger than the padded axis,
/// and for what spans more than Shape::max_elements.
WindowAxis window_axis(std::string_view axis, int64_t in, const WindowAttributes& attributes);

/// The windows that turn what `extra` and `attributes` say into `out` of them: of the axis
/// whose convolution a transposed convolution of `out` elements undoes. It has (out - 1) stride
/// + span - padding + extra elements; with Padding::Same out stride, with Padding::Valid no
/// less. Throws as `window_axis`, and for an extra outside of [0, stride).
WindowAxis transposed_axis(std::string_view axis, int64_t out,
                           const WindowAttributes& attributes, int64_t extra);

/// The windows of [n, h, w, c], or with `h` of extent 1 those of [n, l, c].
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

/// What an op's attributes say of the windows along axis `i` of h and w. The op has `padding`
/// and, as Shape [h, w], `stride`, `pads_begin`, `pads_end` and perhaps `dilation`. Throws
/// GraphError where these are no pairs.
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

/// The windows of an op as above over x [n, h, w, c], whose rank must be 4. Throws as
/// `window_axis`.
template <class X>
Window window_2d(const X& op, const Shape& x, int64_t kernel_h, int64_t kernel_w) {
  return {window_axis("h", x[1], window_attributes_2d(op, 0, kernel_h)),
          window_axis("w", x[2], window_attributes_2d(op, 1, kernel_w))};
}

/// The windows of an op over x [n, l, c], whose rank must be 3, along w. The op has the numbers
/// `stride`, `pad_begin`, `pad_end` and perhaps `dilation`, and `padding`. Throws as
/// `window_axis`.
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

/// The described attributes of windows over two axes, but for dilation: for `fields()`.
template <class X>
constexpr auto window_fields_2d() {
  return std::tuple{
      field("stride", &X::stride, "steps between windows [h, w], each at least 1"),
      field("padding", &X::padding, "Valid: none; Same: ceil(in / stride) windows; Explicit"),
      field("pads_begin", &X::pads_begin, "with Explicit: padding [top, left]"),
      field("pads_end", &X::pads_end, "with Explicit: padding [bottom, right]")};
}

/// The same over one axis.
template <class X>
constexpr auto window_fields_1d() {
  return std::tuple{
      field("stride", &X::stride, "steps between windows, at least 1"),
      field("padding", &X::padding, "Valid: none; Same: ceil(in / stride) windows; Explicit"),
      field("pad_begin", &X::pad_begin, "with Explicit: padding before x"),
      field("pad_end", &X::pad_end, "with Explicit: padding after x")};
}

}  // namespace qtape
