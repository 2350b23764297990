#include "qtape/ops/families/reduction.h"

#include <array>

#include "qtape/ops/core/op.h"

namespace qtape {
namespace {

/// Strides of a dense `shape` along the axes of a tensor of `rank`; 0 where it is repeated.
std::array<int64_t, Shape::max_rank> strides_of(const Shape& shape, int rank) {
  std::array<int64_t, Shape::max_rank> strides{};
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i + rank - shape.rank())] = shape[i] == 1 ? 0 : stride;
    stride *= shape[i];
  }
  return strides;
}

bool joins(const WalkAxis& outer, const WalkAxis& inner) {
  return outer.x == inner.x * inner.extent && outer.a == inner.a * inner.extent &&
         outer.b == inner.b * inner.extent;
}

std::array<bool, Shape::max_rank> chosen_axes(const Shape& x, std::span<const int> axes) {
  std::array<bool, Shape::max_rank> chosen{};
  if (axes.empty()) chosen.fill(true);
  for (int axis : axes) {
    bool& seen = chosen[static_cast<size_t>(resolve_axis(axis, x))];
    check(!seen, "axis {} is given twice", axis);
    seen = true;
  }
  return chosen;
}

/// Removes and returns the last of `axes`, or returns an axis of extent 1 if there is none.
WalkAxis take_last(std::vector<WalkAxis>& axes) {
  if (axes.empty()) return {};
  const WalkAxis last = axes.back();
  axes.pop_back();
  return last;
}

}  // namespace

Offsets offsets_at(std::span<const WalkAxis> axes, int64_t index, Offsets start) {
  for (size_t i = axes.size(); i-- > 0;) {
    start = start.along(axes[i], index % axes[i].extent);
    index /= axes[i].extent;
  }
  return start;
}

std::vector<WalkAxis> walk_axes(const Shape& x, const Shape& a, const Shape& b) {
  const auto x_strides = strides_of(x, x.rank());
  const auto a_strides = strides_of(a, x.rank());
  const auto b_strides = strides_of(b, x.rank());
  std::vector<WalkAxis> axes;
  for (int i = 0; i < x.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    const WalkAxis axis{x[i], x_strides[at], a_strides[at], b_strides[at]};
    if (axis.extent == 1) continue;
    if (!axes.empty() && joins(axes.back(), axis)) {
      axes.back() = {axes.back().extent * axis.extent, axis.x, axis.a, axis.b};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

MapWalk::MapWalk(const Shape& x, const Shape& a, const Shape& b)
    : outer(walk_axes(x, a, b)), elements(x.elements()) {
  columns = take_last(outer);
  rows = take_last(outer);
}

SumWalk::SumWalk(const Shape& x, const Shape& a, const Shape& b) : outputs(a.elements()) {
  std::vector<WalkAxis> axes = walk_axes(x, a, b);
  columns = take_last(axes);
  columns_kept = columns.a != 0;
  for (const WalkAxis& axis : axes) (axis.a != 0 ? kept : reduced).push_back(axis);
  rows = take_last(reduced);
  for (const WalkAxis& axis : reduced) repeats *= axis.extent;
  terms = repeats * rows.extent * (columns_kept ? 1 : columns.extent);
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  std::vector<int64_t> extents(static_cast<size_t>(std::max(a.rank(), b.rank())));
  for (int i = 1; i <= static_cast<int>(extents.size()); ++i) {
    const int64_t of_a = i <= a.rank() ? a[-i] : 1;
    const int64_t of_b = i <= b.rank() ? b[-i] : 1;
    check(of_a == of_b || of_a == 1 || of_b == 1, "shapes do not broadcast: {} and {}",
          to_string(a), to_string(b));
    extents[extents.size() - static_cast<size_t>(i)] = of_a == 1 ? of_b : of_a;
  }
  return Shape(extents);
}

Shape reduced_shape(const Shape& x, std::span<const int> axes) {
  const auto chosen = chosen_axes(x, axes);
  Shape result = x;
  for (int i = 0; i < x.rank(); ++i) {
    if (chosen[static_cast<size_t>(i)]) result = result.with(i, 1);
  }
  return result;
}

Shape reduced_shape(const Shape& x, std::span<const int> axes, bool keep_dims) {
  if (keep_dims) return reduced_shape(x, axes);
  const auto chosen = chosen_axes(x, axes);
  std::vector<int64_t> extents;
  for (int i = 0; i < x.rank(); ++i) {
    if (!chosen[static_cast<size_t>(i)]) extents.push_back(x[i]);
  }
  return Shape(extents);
}

int64_t reduced_terms(const Shape& x, std::span<const int> axes) {
  const Shape y = reduced_shape(x, axes);
  int64_t terms = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x[axis] != y[axis]) terms *= x[axis];
  }
  return terms;
}

}  // namespace qtape
