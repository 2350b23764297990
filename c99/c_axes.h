// Axes over which C kernels iterate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qtape/c99/c_source.h"

namespace qtape {

/// An axis of x, and the step of y along it.
struct CAxis {
  int64_t extent = 1;
  int64_t step = 0;
};

/// Returns the stride of each axis in elements, row-major.
std::vector<int64_t> row_major_strides(const Shape& shape);

/// Returns `axes` without those of extent 1, with neighbours merged where they can be walked as
/// one axis.
std::vector<CAxis> joined(const std::vector<CAxis>& axes);

/// Writes the axes, last one first; returns the argument of the C call.
std::string write_axes(CNode& node, const std::vector<CAxis>& axes);

/// An axis of y, and the steps of its two operands along it: 0 where they are repeated.
struct CPairAxis {
  int64_t extent = 1;
  int64_t a = 0;
  int64_t b = 0;
};

/// Returns at least one axis, the last one first, with neighbours merged where both operands
/// allow it. `a` and `b` broadcast to `y`.
std::vector<CPairAxis> pair_axes(const Shape& a, const Shape& b, const Shape& y);

/// Writes the axes; returns the argument of the C call.
std::string write_axes(CNode& node, const std::vector<CPairAxis>& axes);

}  // namespace qtape
