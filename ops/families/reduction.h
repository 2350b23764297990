// Iteration of broadcasts and reductions over memory, and shapes of reductions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// One axis of a dense tensor x, viewed together with two dense tensors a and b that broadcast
/// to the shape of x. Strides are in elements, and 0 if a tensor is repeated along the axis.
struct WalkAxis {
  int64_t extent = 1;
  int64_t x = 0;
  int64_t a = 0;
  int64_t b = 0;
};

/// Element offsets into x, a and b.
struct Offsets {
  int64_t x = 0;
  int64_t a = 0;
  int64_t b = 0;

  /// Returns these offsets advanced by `steps` along `axis`.
  Offsets along(const WalkAxis& axis, int64_t steps) const {
    return {x + steps * axis.x, a + steps * axis.a, b + steps * axis.b};
  }
};

/// Offsets of the element with row-major index `index` within `axes`, added to `start`.
Offsets offsets_at(std::span<const WalkAxis> axes, int64_t index, Offsets start = {});

/// Axes of x, outermost first, without those of extent 1. Adjacent axes along which all three
/// tensors have compatible strides are merged. The strides of the last axis are 0 or 1.
std::vector<WalkAxis> walk_axes(const Shape& x, const Shape& a, const Shape& b);

/// Elements of x in memory order, divided into matrices of `rows` by `columns`.
struct MapWalk {
  std::vector<WalkAxis> outer;
  WalkAxis rows;
  WalkAxis columns;
  int64_t elements = 0;  ///< number of elements of x

  MapWalk(const Shape& x, const Shape& a, const Shape& b);

  /// Calls `body(offsets, rows, columns)` for pieces of at most `most` elements that cover
  /// elements [begin, end).
  template <class Body>
  void run(int64_t begin, int64_t end, int64_t most, const Body& body) const {
    for (int64_t i = begin; i < end;) {
      const int64_t row = i / columns.extent;
      const int64_t column = i % columns.extent;
      const int64_t first = row % rows.extent;
      const Offsets at =
          offsets_at(outer, row / rows.extent).along(rows, first).along(columns, column);
      const int64_t left = std::min(end - i, most);
      const int64_t whole = std::min(left / columns.extent, rows.extent - first);
      const bool partial = column != 0 || whole == 0;
      const int64_t width = partial ? std::min(left, columns.extent - column) : columns.extent;
      body(at, partial ? 1 : whole, width);
      i += partial ? width : whole * width;
    }
  }
};

/// For each element of a, in memory order, the elements of x and b over which it is repeated.
struct SumWalk {
  std::vector<WalkAxis> kept;     ///< axes of a, except `columns`
  std::vector<WalkAxis> reduced;  ///< axes that a lacks, except `rows` and `columns`
  WalkAxis rows;                  ///< the innermost axis that a lacks, or the preceding one
  WalkAxis columns;               ///< the innermost axis of x
  bool columns_kept = false;      ///< a has the innermost axis
  int64_t outputs = 0;            ///< number of elements of a
  int64_t terms = 0;              ///< number of elements of x per element of a
  int64_t repeats = 1;            ///< product of the extents of `reduced`

  SumWalk(const Shape& x, const Shape& a, const Shape& b);
};

/// Broadcast shape of `a` and `b`: extents are aligned at the last axis and must be equal, or
/// one of them is 1 or missing. Throws GraphError otherwise.
Shape broadcast_shape(const Shape& a, const Shape& b);

/// `x` with extent 1 along `axes`, or along all axes if `axes` is empty. Negative axes count
/// from the back. Throws GraphError for an axis that is out of range or repeated.
Shape reduced_shape(const Shape& x, std::span<const int> axes);

/// The reduced shape; removes the axes unless `keep_dims` is set.
Shape reduced_shape(const Shape& x, std::span<const int> axes, bool keep_dims);

/// Number of elements of x per element of reduced_shape(x, axes).
int64_t reduced_terms(const Shape& x, std::span<const int> axes);

}  // namespace qtape
