// How broadcasts and reductions step through memory, and what reducing axes does to a shape.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// One axis of a dense tensor x, seen together with two dense tensors a and b that broadcast to
/// the shape of x. Strides count elements and are 0 where a tensor is repeated along the axis.
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

  /// These offsets moved by `steps` along `axis`.
  Offsets along(const WalkAxis& axis, int64_t steps) const {
    return {x + steps * axis.x, a + steps * axis.a, b + steps * axis.b};
  }
};

/// Offsets of the element with row-major number `index` within `axes`, moved by `start`.
Offsets offsets_at(std::span<const WalkAxis> axes, int64_t index, Offsets start = {});

/// The axes of x, outermost first, without those of extent 1; neighbours along which all three
/// tensors step alike are joined. The last axis has strides of 0 or 1.
std::vector<WalkAxis> walk_axes(const Shape& x, const Shape& a, const Shape& b);

/// The elements of x in memory order, cut into matrices of `rows` by `columns`.
struct MapWalk {
  std::vector<WalkAxis> outer;
  WalkAxis rows;
  WalkAxis columns;
  int64_t elements = 0;  ///< of x

  MapWalk(const Shape& x, const Shape& a, const Shape& b);

  /// Calls `body(offsets, rows, columns)` for pieces that make up the elements [begin, end).
  template <class Body>
  void run(int64_t begin, int64_t end, const Body& body) const {
    for (int64_t i = begin; i < end;) {
      const int64_t row = i / columns.extent;
      const int64_t column = i % columns.extent;
      const int64_t first = row % rows.extent;
      const Offsets at =
          offsets_at(outer, row / rows.extent).along(rows, first).along(columns, column);
      const int64_t whole = std::min((end - i) / columns.extent, rows.extent - first);
      const bool partial = column != 0 || whole == 0;
      const int64_t width =
          partial ? std::min(end - i, columns.extent - column) : columns.extent;
      body(at, partial ? 1 : whole, width);
      i += partial ? width : whole * width;
    }
  }
};

/// For each element of a, in memory order, the elements of x and b that it is repeated over.
struct SumWalk {
  std::vector<WalkAxis> kept;     ///< axes of a, but for `columns`
  std::vector<WalkAxis> reduced;  ///< axes that a lacks, but for `rows` and `columns`
  WalkAxis rows;                  ///< the innermost axis that a lacks, or the one before it
  WalkAxis columns;               ///< the innermost axis of x
  bool columns_kept = false;      ///< whether a has the innermost axis
  int64_t outputs = 0;            ///< elements of a
  int64_t terms = 0;              ///< elements of x for each one of a
  int64_t repeats = 1;            ///< product of the extents of `reduced`

  SumWalk(const Shape& x, const Shape& a, const Shape& b);
};

/// The shape that `a` and `b` broadcast to: extents are aligned at the last axis and equal, or
/// one of them is 1 or missing. Throws GraphError.
Shape broadcast_shape(const Shape& a, const Shape& b);

/// `x` with extent 1 along `axes`, or along all axes when there are none. Negative axes count
/// from the back. Throws GraphError for an axis out of range or given twice.
Shape reduced_shape(const Shape& x, std::span<const int> axes);

/// The same without those axes unless `keep_dims`.
Shape reduced_shape(const Shape& x, std::span<const int> axes, bool keep_dims);

/// How many elements of x one element of reduced_shape(x, axes) stands for.
int64_t reduced_terms(const Shape& x, std::span<const int> axes);

}  // namespace qtape
