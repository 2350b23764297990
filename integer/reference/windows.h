// Windows along one or two spatial axes, from the attributes of an integer op and the shapes of
// its operand and result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qtape/core/types.h"
#include "qtape/ops/families/window.h"

namespace qtape::integer::reference {

/// Windows along one axis. Window i holds the elements i stride - begin + j dilation.
struct Axis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;

  int64_t place(int64_t window, int64_t element) const {
    return window * stride - begin + element * dilation;
  }
  bool holds(int64_t place) const { return place >= 0 && place < in; }
};

/// Attributes by axis; empty: `fallback`.
inline int64_t number(const Shape& numbers, int axis, int64_t fallback) {
  return numbers.rank() == 0 ? fallback : numbers[axis];
}

/// Windows over x [n, h, w, c] or [n, l, c]; h has extent 1 where there is one axis.
struct Windows {
  int64_t images = 0;
  int64_t channels = 0;
  Axis h, w;
};

/// The windows of `op` with kernel extents `kernel` and steps `stride` and `dilation`.
template <class Op>
Windows windows_of(const Op& op, const Shape& kernel, const Shape& dilation, const Shape& x,
                   const Shape& y) {
  const auto axis = [&](int i) {
    Axis a{.in = x[1 + i], .out = y[1 + i], .kernel = kernel[i]};
    a.stride = number(op.stride, i, a.kernel);
    a.dilation = number(dilation, i, 1);
    if (op.padding == Padding::Explicit) a.begin = number(op.pads_begin, i, 0);
    if (op.padding == Padding::Same) {
      const int64_t last = (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1;
      a.begin = std::max<int64_t>(0, last - a.in) / 2;
    }
    return a;
  };
  Windows all{.images = x[0], .channels = x[-1], .h = {}, .w = {}};
  if (x.rank() == 3) {
    all.w = axis(0);
  } else {
    all.h = axis(0);
    all.w = axis(1);
  }
  return all;
}

/// Calls `body(row, column, p, q)` for each element (p, q) of window (i, j) that lies within x.
template <class Body>
void for_each_element(const Windows& windows, int64_t i, int64_t j, const Body& body) {
  for (int64_t p = 0; p < windows.h.kernel; ++p) {
    for (int64_t q = 0; q < windows.w.kernel; ++q) {
      const int64_t row = windows.h.place(i, p);
      const int64_t column = windows.w.place(j, q);
      if (windows.h.holds(row) && windows.w.holds(column)) body(row, column, p, q);
    }
  }
}

/// Calls `body(image, i, j)` for each window, in the order of y.
template <class Body>
void for_each_window(const Windows& windows, const Body& body) {
  for (int64_t n = 0; n < windows.images; ++n) {
    for (int64_t i = 0; i < windows.h.out; ++i) {
      for (int64_t j = 0; j < windows.w.out; ++j) body(n, i, j);
    }
  }
}

}  // namespace qtape::integer::reference
