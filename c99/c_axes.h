// Axes that C kernels walk along.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qtape/c99/c_source.h"

namespace qtape {

/// An axis of x, and how far y moves along it.
struct CAxis {
  int64_t extent = 1;
  int64_t step = 0;
};

/// The elements from one index of each axis to the next.
std::vector<int64_t> row_major_strides(const Shape& shape);

/// `axes` without those of extent 1, and neighbours that are walked as one joined.
std::vector<CAxis> joined(const std::vector<CAxis>& axes);

/// Writes the axes, the last one first; gives the argument.
std::string write_axes(CNode& node, const std::vector<CAxis>& axes);

}  // namespace qtape
