// Common parts of poolings: attributes of the windows over NHWC and NLC tensors, shapes, and
// the elements of windows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qtape/core/code_types.h"
#include "qtape/ops/families/window.h"

namespace qtape {

/// Attributes of a pooling: one number per spatial axis. All except `kernel` may be empty,
/// which selects the defaults.
struct PoolAttributes {
  Shape kernel;
  Shape stride;    ///< default: the kernel
  Shape dilation;  ///< default: 1
  Padding padding = Padding::Valid;
  Shape pads_begin;  ///< default: 0
  Shape pads_end;    ///< default: 0
};

/// Extents of a pooling of one tensor. For 3 axes the windows slide along w, and h has extent
/// 1.
struct Pool {
  int64_t images = 0;
  int64_t channels = 0;
  Window window;
  Shape result;

  /// Number of rows of windows, or of elements of x, in all images.
  int64_t output_rows() const { return images * window.h.out; }
  int64_t input_rows() const { return images * window.h.in; }
};

/// Throws GraphError unless x is [n, h, w, c] or [n, l, c], as `window_axis` does, for windows
/// of more than 2^31 - 1 elements and for a window that contains no element of x.
Pool pool_of(const Shape& x, const PoolAttributes& attributes);

/// Fields of the window attributes for `fields()`, except dilation.
template <class X>
constexpr auto pool_fields() {
  return std::tuple{
      field("kernel", &X::kernel, "extents of a window [h, w], or [l] of x [n, l, c]"),
      field("stride", &X::stride,
            "steps between windows, by axis; empty: the kernel's extents"),
      field("padding", &X::padding, "Valid: none; Same: ceil(in / stride) windows; Explicit"),
      field("pads_begin", &X::pads_begin, "with Explicit: padding before x by axis; empty: 0"),
      field("pads_end", &X::pads_end, "with Explicit: padding after x by axis; empty: 0")};
}

/// A half-open range.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

/// Elements of window `i` that are not padding.
inline Range real_elements(const WindowAxis& w, int64_t i) {
  const int64_t start = w.start(i);
  if (w.dilation == 1) return {std::max<int64_t>(0, -start), std::min(w.kernel, w.in - start)};
  const int64_t first = start >= 0 ? 0 : (w.dilation - 1 - start) / w.dilation;
  return {first, std::min(w.kernel, (w.in - start + w.dilation - 1) / w.dilation)};
}

/// Windows whose span contains element `at` of x. With dilation they may skip the element.
inline Range windows_over(const WindowAxis& w, int64_t at) {
  const int64_t padded = at + w.begin;
  const int64_t before = padded - w.span();
  return {before < 0 ? 0 : before / w.stride + 1, std::min(w.out, padded / w.stride + 1)};
}

/// Throws GraphError unless `type` is f32, f64 or a code dtype.
void check_compute_or_codes(const TensorType& type);

}  // namespace qtape
