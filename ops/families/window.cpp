#include "qtape/ops/families/window.h"

#include <algorithm>

#include "qtape/core/error.h"

namespace qtape {
namespace {

void check_attributes(std::string_view axis, int64_t in, const WindowAttributes& a) {
  check(in >= 1, "x needs an extent of at least 1 along {}, got {}", axis, in);
  check(a.kernel >= 1, "kernel must be at least 1 along {}, got {}", axis, a.kernel);
  check(a.stride >= 1, "stride must be at least 1 along {}, got {}", axis, a.stride);
  check(a.dilation >= 1, "dilation must be at least 1 along {}, got {}", axis, a.dilation);
  check(a.pad_begin >= 0 && a.pad_end >= 0,
        "padding must not be negative along {}, got {} and {}", axis, a.pad_begin, a.pad_end);
  check(a.padding == Padding::Explicit || (a.pad_begin == 0 && a.pad_end == 0),
        "padding of {} and {} along {} needs padding Explicit, got {}", a.pad_begin, a.pad_end,
        axis, to_string_view(a.padding));
  constexpr int64_t limit = Shape::max_elements;
  check(in <= limit && a.pad_begin <= limit && a.pad_end <= limit && a.stride <= limit &&
            a.kernel - 1 <= (limit - 1) / a.dilation,
        "windows span more than 2^48 elements along {}: extent {}, kernel {}, stride {}, "
        "dilation {}, padding {} and {}",
        axis, in, a.kernel, a.stride, a.dilation, a.pad_begin, a.pad_end);
}

}  // namespace

WindowAxis window_axis(std::string_view axis, int64_t in, const WindowAttributes& attributes) {
  check_attributes(axis, in, attributes);
  WindowAxis w{.in = in,
               .kernel = attributes.kernel,
               .stride = attributes.stride,
               .dilation = attributes.dilation,
               .begin = attributes.pad_begin,
               .end = attributes.pad_end};
  if (attributes.padding == Padding::Same) {
    w.out = (in + w.stride - 1) / w.stride;
    const int64_t missing = std::max<int64_t>(0, (w.out - 1) * w.stride + w.span() - in);
    w.begin = missing / 2;
    w.end = missing - w.begin;
    return w;
  }
  const int64_t padded = in + w.begin + w.end;
  check(w.span() <= padded, "kernel of {} with dilation {} spans {} along {}, padded x has {}",
        w.kernel, w.dilation, w.span(), axis, padded);
  w.out = (padded - w.span()) / w.stride + 1;
  return w;
}

WindowAxis transposed_axis(std::string_view axis, int64_t out,
                           const WindowAttributes& attributes, int64_t extra) {
  check_attributes(axis, out, attributes);
  const WindowAttributes& a = attributes;
  check(extra >= 0 && extra < a.stride,
        "output_padding must be at least 0 and below the stride along {}, got {} and {}", axis,
        extra, a.stride);
  constexpr int64_t limit = Shape::max_elements;
  check(out <= limit / a.stride, "y has more than 2^48 elements along {}: extent {}, stride {}",
        axis, out, a.stride);
  const int64_t span = (a.kernel - 1) * a.dilation + 1;
  int64_t in = (out - 1) * a.stride + span - a.pad_begin - a.pad_end + extra;
  if (a.padding == Padding::Same) {
    check(extra == 0, "output_padding of {} along {} needs padding Valid or Explicit", extra,
          axis);
    in = out * a.stride;
  }
  check(in >= 1, "padding of {} and {} leaves none of the {} elements along {}", a.pad_begin,
        a.pad_end, in + a.pad_begin + a.pad_end, axis);
  return window_axis(axis, in, a);
}

void check_pair(std::string_view name, const Shape& numbers) {
  check(numbers.rank() == 2, "{} must have 2 numbers, got {}", name, to_string(numbers));
}

}  // namespace qtape
