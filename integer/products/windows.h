// Windows of codes, gathered as rows for products.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "qtape/ops/families/convolution.h"

namespace qtape {

/// Copies codes between ranges that do not overlap, optimized for small n: in 16-byte chunks,
/// of which the last may overlap the one before.
template <class X>
void copy_short(const X* from, X* to, int64_t n) {
  constexpr int64_t chunk = 16 / sizeof(X);
  if (n < chunk) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + chunk <= n; i += chunk) std::memcpy(to + i, from + i, 16);
  std::memcpy(to + n - chunk, from + n - chunk, 16);
}

/// The windows of x [images, h.in, w.in, channels], indexed over images, h.out and w.out.
template <class X>
class CodeWindows {
 public:
  explicit CodeWindows(const Convolution& c) : c_(c) {}

  /// Writes the windows [first, first + count) to rows [kernel, channels]; elements outside x
  /// are `padding`.
  void gather(const X* x, X padding, int64_t first, int64_t count, X* to) const {
    const auto& [h, w] = c_.window;
    const int64_t channels = c_.in_channels;
    const int64_t line = w.kernel * channels;
    int64_t column = first % w.out;
    int64_t row = first / w.out % h.out;
    const X* image = x + first / c_.window.outputs() * h.in * w.in * channels;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t top = h.start(row);
      const int64_t left = w.start(column);
      const bool whole = w.dilation == 1 && left >= 0 && left + w.kernel <= w.in;
      for (int64_t i = 0; i < h.kernel; ++i, to += line) {
        const int64_t at = top + i * h.dilation;
        const X* from = image + at * w.in * channels;
        if (at < 0 || at >= h.in) {
          std::fill_n(to, line, padding);
        } else if (whole) {
          copy_short(from + left * channels, to, line);
        } else {
          gather_row(from, padding, left, to);
        }
      }
      if (++column < w.out) continue;
      column = 0;
      if (++row < h.out) continue;
      row = 0;
      image += h.in * w.in * channels;
    }
  }

  /// Points `taps` at the channels of each element of window `r`, or at `padding` outside x.
  void point(const X* x, const X* padding, int64_t r, const X** taps) const {
    const auto& [h, w] = c_.window;
    const X* image = x + r / c_.window.outputs() * h.in * w.in * c_.in_channels;
    const int64_t top = h.start(r / w.out % h.out);
    const int64_t left = w.start(r % w.out);
    for (int64_t i = 0; i < h.kernel; ++i) {
      const int64_t row = top + i * h.dilation;
      for (int64_t j = 0; j < w.kernel; ++j) {
        const int64_t column = left + j * w.dilation;
        const bool inside = row >= 0 && row < h.in && column >= 0 && column < w.in;
        *taps++ = inside ? image + (row * w.in + column) * c_.in_channels : padding;
      }
    }
  }

 private:
  void gather_row(const X* row, X padding, int64_t left, X* to) const {
    const WindowAxis& w = c_.window.w;
    const int64_t channels = c_.in_channels;
    if (w.dilation > 1) {
      for (int64_t j = 0; j < w.kernel; ++j, to += channels) {
        const int64_t column = left + j * w.dilation;
        if (column < 0 || column >= w.in) {
          std::fill_n(to, channels, padding);
        } else {
          std::copy_n(row + column * channels, channels, to);
        }
      }
      return;
    }
    const int64_t begin = std::clamp<int64_t>(-left, 0, w.kernel);
    const int64_t end = std::clamp<int64_t>(w.in - left, begin, w.kernel);
    to = std::fill_n(to, begin * channels, padding);
    to = std::copy_n(row + (left + begin) * channels, (end - begin) * channels, to);
    std::fill_n(to, (w.kernel - end) * channels, padding);
  }

  Convolution c_;
};

}  // namespace qtape
