// MaxPool: the largest element of each window.
#pragma once

#include "qtape/ops/core/op.h"
#include "qtape/ops/families/pool.h"

namespace qtape {

struct MaxPool {
  static constexpr std::string_view name = "MaxPool";
  static constexpr OpDocs docs{
      .summary = "The largest element of each window, by channel.",
      .formula =
          {"y[n, i, j, c] = the largest x[n, i s + p d - b, j s + q d - b, c] over the "
           "elements (p, q) of the kernel that lie in x.",
           "s is the stride, d the dilation and b the padding at the beginning of the axis. "
           "Padding is never selected."},
      .operands = {"x is [n, h, w, c] or [n, l, c], f32, f64 or integer codes: s8, u8, s16 or "
                   "u16.",
                   "y is [n, windows along h, windows along w, c] or [n, windows along l, c]."},
      .gradient =
          "dy goes to the first element of the window, in index order, that is the maximum; "
          "summed in double over windows, in index order.",
      .saves =
          "The index of that element in its window: 4 bytes per element of y, 1 for codes.",
      .edge_cases = {"NaN is larger than any number.",
                     "Refused: a kernel larger than the padded x, a dilation above the extent, "
                     "and a window that contains only padding."},
      .source = "Elementary; padding Same as in TensorFlow."};
  static constexpr Sign sign = Sign::Kept;

  Shape kernel = {2, 2};
  Shape stride = {};
  Shape dilation = {};
  Padding padding = Padding::Valid;
  Shape pads_begin = {};
  Shape pads_end = {};

  static constexpr auto fields() {
    return std::tuple_cat(
        pool_fields<MaxPool>(),
        std::tuple{field("dilation", &MaxPool::dilation,
                         "steps between the elements of a window, by axis; empty: 1")});
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs inputs) const;
  /// True if the kernels can compute codes from codes, with an f32 gradient: see OnCodes.
  bool on_codes() const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  /// Windows over x. Throws GraphError as `pool_of` does.
  Pool pool(const Shape& x) const {
    return pool_of(x, {kernel, stride, dilation, padding, pads_begin, pads_end});
  }
  bool operator==(const MaxPool&) const = default;
};

}  // namespace qtape
