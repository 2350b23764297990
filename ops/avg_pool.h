// AvgPool: the mean of each window.
#pragma once

#include <optional>

#include "qtape/ops/core/op.h"
#include "qtape/ops/families/pool.h"

namespace qtape {

struct AvgPool {
  static constexpr std::string_view name = "AvgPool";
  static constexpr OpDocs docs{
      .summary = "The mean of each window, by channel.",
      .formula =
          {"y[n, i, j, c] = the sum of x[n, i s + p - b, j s + q - b, c] over the elements "
           "(p, q) of the kernel that lie in x, divided by m.",
           "s is the stride and b the padding at the beginning of the axis.",
           "m is the number of elements of the kernel or, without `count_include_pad`, of "
           "those that lie in x.",
           "Added in double in index order, and divided in double."},
      .operands = {"x is [n, h, w, c] or [n, l, c], f32 or f64.",
                   "y is [n, windows along h, windows along w, c] or [n, windows along l, c]."},
      .gradient =
          "dx = the sum of dy / m over the windows that hold the element, added in "
          "double in index order.",
      .saves = "Nothing.",
      .edge_cases =
          "Refused: a kernel larger than the padded x, and a window that contains only "
          "padding.",
      .source = "PyTorch's avg_pool2d; padding Same as in TensorFlow."};
  static constexpr Sign sign = Sign::Kept;

  Shape kernel = {2, 2};
  Shape stride = {};
  Padding padding = Padding::Valid;
  Shape pads_begin = {};
  Shape pads_end = {};
  bool count_include_pad = true;

  static constexpr auto fields() {
    return std::tuple_cat(pool_fields<AvgPool>(),
                          std::tuple{field("count_include_pad", &AvgPool::count_include_pad,
                                           "count padding elements in the divisor")});
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  /// Windows over x. Throws GraphError as `pool_of` does.
  Pool pool(const Shape& x) const {
    return pool_of(x, {kernel, stride, {}, padding, pads_begin, pads_end});
  }
  /// Divisor of the sum of window (i, j) of `pool`.
  int64_t divisor(const Pool& pool, int64_t i, int64_t j) const {
    if (count_include_pad) return pool.window.kernel();
    return real_elements(pool.window.h, i).size() * real_elements(pool.window.w, j).size();
  }
  /// Least common multiple of the divisors of `pool`. nullopt if it or the number of elements
  /// of a window exceeds `most`, which is at most 2^31.
  std::optional<int64_t> common_divisor(const Pool& pool, int64_t most) const;
  bool operator==(const AvgPool&) const = default;
};

}  // namespace qtape
