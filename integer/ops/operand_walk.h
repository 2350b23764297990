// Operands of elementwise ops that are repeated to the shape of the result.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "qtape/core/types.h"

namespace qtape::integer {

/// The elements of an operand in the order of the result: axes are aligned at the last one, and
/// an extent that is 1 or missing is repeated.
class OperandWalk {
 public:
  /// `x` must broadcast to `y`.
  OperandWalk(const Shape& x, const Shape& y);

  /// True if nothing is repeated.
  bool is_whole() const { return count_ == 1 && axes_[0].step == 1; }

  /// Writes the elements that belong to the elements `begin` to `begin + n` of the result.
  template <class From, class To>
  void read(const From* x, int64_t begin, int64_t n, To* to) const {
    Indices at{};
    int64_t offset = start(begin, at);
    for (int64_t within = at[0]; n > 0; within = 0) {
      const int64_t width = std::min(axes_[0].extent - within, n);
      if (axes_[0].step == 0) {
        std::fill_n(to, width, static_cast<To>(x[offset]));
      } else {
        std::copy_n(x + offset + within, width, to);
      }
      to += width;
      n -= width;
      offset = next(offset, at);
    }
  }

 private:
  using Indices = std::array<int64_t, Shape::max_rank>;
  struct Axis {
    int64_t extent = 1;
    int64_t step = 1;  ///< of x, 0 where it is repeated
  };

  /// Finds the indices of element `begin`; returns the offset of x without axis 0.
  int64_t start(int64_t begin, Indices& at) const;
  /// Moves to the next index along the axes after the first one; returns the offset of x.
  int64_t next(int64_t offset, Indices& at) const {
    for (size_t i = 1; i < count_; ++i) {
      if (++at[i] < axes_[i].extent) return offset + axes_[i].step;
      offset -= (axes_[i].extent - 1) * axes_[i].step;
      at[i] = 0;
    }
    return offset;
  }

  std::array<Axis, Shape::max_rank> axes_;  // the last axis first, merged where x allows it
  size_t count_ = 0;
};

}  // namespace qtape::integer
