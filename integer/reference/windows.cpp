// References of integer ops over windows and images.
#include "qtape/integer/reference/windows.h"

#include <numeric>

#include "qtape/integer/ops/integer_ops.h"
#include "qtape/integer/reference/integers.h"

namespace qtape::integer {

using namespace reference;
namespace {

/// Position of element (row, column) of channel c of an image.
int64_t place(const Windows& g, int64_t image, int64_t row, int64_t column, int64_t c) {
  return ((image * g.h.in + row) * g.w.in + column) * g.channels + c;
}

/// Number of elements that the sum of a window is divided by.
int64_t elements_of(const AvgPool& op, const Windows& g, int64_t i, int64_t j) {
  int64_t elements = 0;
  for_each_element(g, i, j, [&](int64_t, int64_t, int64_t, int64_t) { ++elements; });
  return op.count_include_pad ? g.h.kernel * g.w.kernel : elements;
}

/// Weight of element `index` of x, in parts, at the position of index i of y along an axis of
/// extent `in`.
int64_t nearness(const Interpolate& op, size_t axis, int64_t in, int64_t i, int64_t index) {
  const int64_t parts = op.divisor[axis];
  const int64_t at =
      std::clamp<int64_t>(i * op.step[axis] + op.offset[axis], 0, (in - 1) * parts);
  return std::max<int64_t>(0, parts - std::abs(at - index * parts));
}

}  // namespace

template <>
IntegerKernel Structure<qtape::MaxPool>::reference(const IntegerBinding& b) const {
  return {
      .run = [x = operand(b, 0), y = result(b),
              g = windows_of(*this, kernel, dilation, b.in(0).type.shape, b.out().type.shape)] {
        int64_t at = 0;
        for_each_window(g, [&](int64_t n, int64_t i, int64_t j) {
          for (int64_t c = 0; c < g.channels; ++c) {
            int64_t most = std::numeric_limits<int64_t>::lowest();
            for_each_element(g, i, j, [&](int64_t row, int64_t column, int64_t, int64_t) {
              most = std::max(most, x[place(g, n, row, column, c)]);
            });
            y.set(at++, most);
          }
        });
      }};
}

IntegerKernel AvgPool::reference(const IntegerBinding& b) const {
  return {.run = [this, x = operand(b, 0), y = result(b),
                  g = windows_of(*this, kernel, {}, b.in(0).type.shape, b.out().type.shape)] {
    int64_t common = 1;
    for_each_window(g, [&](int64_t, int64_t i, int64_t j) {
      common = std::lcm(common, elements_of(*this, g, i, j));
    });
    int64_t at = 0;
    for_each_window(g, [&](int64_t n, int64_t i, int64_t j) {
      for (int64_t c = 0; c < g.channels; ++c) {
        int64_t sum = 0;
        for_each_element(g, i, j, [&](int64_t row, int64_t column, int64_t, int64_t) {
          sum += x.difference(place(g, n, row, column, c));
        });
        y.set(at++, sum * (common / elements_of(*this, g, i, j)));
      }
    });
  }};
}

IntegerKernel MeanPool::reference(const IntegerBinding& b) const {
  return {.run = [x = operand(b, 0), y = result(b),
                  g = windows_of(*this, kernel, {}, b.in(0).type.shape, b.out().type.shape)] {
    int64_t at = 0;
    for_each_window(g, [&](int64_t n, int64_t i, int64_t j) {
      for (int64_t c = 0; c < g.channels; ++c) {
        int64_t sum = 0;
        int64_t count = 0;
        for_each_element(g, i, j, [&](int64_t row, int64_t column, int64_t, int64_t) {
          sum += x[place(g, n, row, column, c)];
          ++count;
        });
        y.set(at++, (sum > 0 ? sum + count / 2 : sum - count / 2) / count);
      }
    });
  }};
}

template <>
IntegerKernel Structure<qtape::Upsample>::reference(const IntegerBinding& b) const {
  return {.run = [x = operand(b, 0), y = result(b), to = b.out().type.shape] {
    const Shape& from = x.shape();
    for (int64_t i = 0; i < to.elements(); ++i) {
      int64_t source = 0;
      int64_t stride = 1;
      int64_t rest = i;
      for (int axis = to.rank() - 1; axis >= 0; --axis) {
        source += rest % to[axis] / (to[axis] / from[axis]) * stride;
        stride *= from[axis];
        rest /= to[axis];
      }
      y.set(i, x[source]);
    }
  }};
}

/// Takes every element of x by its weight, which is 0 for most.
IntegerKernel Interpolate::reference(const IntegerBinding& b) const {
  return {.run = [this, x = operand(b, 0), y = result(b), to = b.out().type.shape] {
    const Shape& from = x.shape();
    const bool one = from.rank() == 3;
    const int64_t channels = from[-1], width = from[-2], height = one ? 1 : from[1];
    for (int64_t k = 0; k < to.elements(); ++k) {
      const int64_t j = k / channels % to[-2];
      const int64_t i = one ? 0 : k / channels / to[-2] % to[1];
      const int64_t image = k / (to.elements() / to[0]);
      int64_t sum = 0;
      for (int64_t row = 0; row < height; ++row) {
        const int64_t above = one ? 1 : nearness(*this, 0, height, i, row);
        for (int64_t column = 0; above > 0 && column < width; ++column) {
          sum +=
              above * nearness(*this, one ? 0 : 1, width, j, column) *
              x.difference(((image * height + row) * width + column) * channels + k % channels);
        }
      }
      y.set(k, sum);
    }
  }};
}

IntegerKernel Pad::reference(const IntegerBinding& b) const {
  return {.run = [this, x = operand(b, 0), y = result(b), to = b.out().type.shape] {
    const Shape& from = x.shape();
    for (int64_t i = 0; i < to.elements(); ++i) {
      bool inside = true;
      int64_t source = 0;
      int64_t stride = 1;
      int64_t rest = i;
      for (int axis = to.rank() - 1; axis >= 0; --axis) {
        const int64_t at = rest % to[axis] - begin[axis];
        inside = inside && at >= 0 && at < from[axis];
        source += at * stride;
        stride *= from[axis];
        rest /= to[axis];
      }
      y.set(i, inside ? x[source] : code);
    }
  }};
}

}  // namespace qtape::integer
