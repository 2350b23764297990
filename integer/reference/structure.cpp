// References of integer ops that move and reduce codes.
#include "qtape/integer/ops/structure.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "qtape/integer/ops/arg_max.h"
#include "qtape/integer/ops/embedding.h"
#include "qtape/integer/ops/reduce.h"
#include "qtape/integer/reference/integers.h"

namespace qtape::integer {

using namespace reference;
namespace {

int axis_from_front(int axis, const Shape& shape) {
  return axis < 0 ? axis + shape.rank() : axis;
}

int64_t elements_behind(const Shape& shape, int axis) {
  int64_t n = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) n *= shape[i];
  return n;
}

/// Calls `body(i, place)` for each element i of x; `place` is its element of the result of a
/// reduction over `axes`, all if empty.
template <class Body>
void for_each_reduced(const Shape& x, std::span<const int> axes, const Body& body) {
  const auto reduced = [&](int axis) {
    return axes.empty() || std::ranges::any_of(axes, [&](int each) {
             return axis_from_front(each, x) == axis;
           });
  };
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t place = 0;
    int64_t stride = 1;
    int64_t rest = i;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      if (!reduced(axis)) {
        place += rest % x[axis] * stride;
        stride *= x[axis];
      }
      rest /= x[axis];
    }
    body(i, static_cast<size_t>(place));
  }
}

void write(const std::vector<int64_t>& values, const Result& y) {
  for (size_t i = 0; i < values.size(); ++i) y.set(static_cast<int64_t>(i), values[i]);
}

}  // namespace

template <>
IntegerKernel Structure<qtape::Concat>::reference(const IntegerBinding& b) const {
  std::vector<Operand> operands;
  for (size_t k = 0; k < b.inputs.size(); ++k) operands.push_back(operand(b, k));
  return {.run = [this, operands, y = result(b), to = b.out().type.shape] {
    const int along = axis_from_front(axis, to);
    const int64_t inner = elements_behind(to, along);
    int64_t before = 0;
    for (const Operand& x : operands) {
      const int64_t width = x.shape()[along];
      for (int64_t i = 0; i < x.shape().elements(); ++i) {
        const int64_t outer = i / (width * inner);
        y.set((outer * to[along] + before) * inner + i % (width * inner), x[i]);
      }
      before += width;
    }
  }};
}

template <>
IntegerKernel Structure<qtape::Slice>::reference(const IntegerBinding& b) const {
  return {.run = [this, x = operand(b, 0), y = result(b), to = b.out().type.shape] {
    const int along = axis_from_front(axis, to);
    const int64_t inner = elements_behind(to, along);
    const int64_t extent = x.shape()[along];
    const int64_t first = begin < 0 ? begin + extent : begin;
    for (int64_t i = 0; i < to.elements(); ++i) {
      const int64_t outer = i / (to[along] * inner);
      y.set(i, x[(outer * extent + first) * inner + i % (to[along] * inner)]);
    }
  }};
}

template <>
IntegerKernel Structure<qtape::Gather>::reference(const IntegerBinding& b) const {
  return {.run = [this, x = operand(b, 0), y = result(b), to = b.out().type.shape] {
    const int along = axis_from_front(axis, to);
    const int64_t inner = elements_behind(to, along);
    for (int64_t i = 0; i < to.elements(); ++i) {
      const int64_t outer = i / inner / to[along];
      const int64_t index = indices[static_cast<size_t>(i / inner % to[along])];
      y.set(i, x[(outer * x.shape()[along] + index) * inner + i % inner]);
    }
  }};
}

/// Walks x in its order; `axes` are those of y.
template <>
IntegerKernel Structure<qtape::Transpose>::reference(const IntegerBinding& b) const {
  std::vector<int> axes;
  const int rank = b.out().type.shape.rank();
  for (int k = 0; k < rank; ++k) {
    axes.push_back(permutation.empty() ? rank - 1 - k
                                       : axis_from_front(permutation[static_cast<size_t>(k)],
                                                         b.out().type.shape));
  }
  const auto size = static_cast<size_t>(size_of(b.out().type.dtype));
  return {.run = [axes, size, x = operand(b, 0), y = result(b), to = b.out().type.shape] {
    for (int64_t i = 0; i < to.elements(); ++i) {
      std::vector<int64_t> at(axes.size());
      int64_t rest = i;
      for (int axis = x.shape().rank() - 1; axis >= 0; --axis) {
        at[static_cast<size_t>(axis)] = rest % x.shape()[axis];
        rest /= x.shape()[axis];
      }
      int64_t place = 0;
      for (size_t k = 0; k < axes.size(); ++k) {
        place = place * to[static_cast<int>(k)] + at[static_cast<size_t>(axes[k])];
      }
      // Floats are moved as well.
      std::memcpy(y.data + static_cast<size_t>(place) * size,
                  x.data + static_cast<size_t>(i) * size, size);
    }
  }};
}

template <>
IntegerKernel Structure<qtape::Reshape>::reference(const IntegerBinding& b) const {
  return {.run = [x = b.operands[0], y = b.result, bytes = b.out().type.bytes()] {
    for (int64_t i = 0; i < bytes; ++i) y[i] = x[i];
  }};
}

IntegerKernel Max::reference(const IntegerBinding& b) const {
  return {
      .run = [*this, x = operand(b, 0), y = result(b), most = buffer(b.out().type.elements())] {
        std::ranges::fill(*most, std::numeric_limits<int64_t>::lowest());
        for_each_reduced(x.shape(), axes, [&](int64_t i, size_t place) {
          (*most)[place] = std::max((*most)[place], x[i]);
        });
        write(*most, y);
      }};
}

IntegerKernel Sum::reference(const IntegerBinding& b) const {
  return {
      .run = [*this, x = operand(b, 0), y = result(b), sums = buffer(b.out().type.elements())] {
        std::ranges::fill(*sums, 0);
        for_each_reduced(x.shape(), axes,
                         [&](int64_t i, size_t place) { (*sums)[place] += x.difference(i); });
        write(*sums, y);
      }};
}

IntegerKernel ArgMax::reference(const IntegerBinding& b) const {
  return {.run = [*this, x = operand(b, 0), y = result(b), n = b.out().type.elements()] {
    const std::vector<double>& scales = x.value->scales;
    const int along = axis_from_front(axis, x.shape());
    const int64_t inner = elements_behind(x.shape(), along);
    const auto value = [&](int64_t i) {
      const auto scale = static_cast<float>(scales[static_cast<size_t>(i) % scales.size()]);
      return static_cast<float>(x[i]) * (x.value->is_codes() ? 1.0f : scale);
    };
    for (int64_t k = 0; k < n; ++k) {
      const int64_t first = k / inner * x.shape()[along] * inner + k % inner;
      int64_t best = 0;
      for (int64_t i = 1; i < x.shape()[along]; ++i) {
        if (value(first + i * inner) > value(first + best * inner)) best = i;
      }
      y.set(k, best);
    }
  }};
}

IntegerKernel Embedding::reference(const IntegerBinding& b) const {
  return {.run = [table = operand(b, 0), indices = operand(b, 1), y = result(b),
                  n = b.out().type.elements()] {
    const int64_t rows = table.shape()[0];
    const int64_t width = table.shape()[1];
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = indices[i / width];
      check(row >= 0 && row < rows, "element {} is {}, expected an index within 0..{}",
            i / width, row, rows - 1);
      y.set(i, table[row * width + i % width]);
    }
  }};
}

}  // namespace qtape::integer
