// Position of a tensor within a larger one that is padded along its axes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qtape/core/types.h"

namespace qtape {

/// x of `shape` within y, which has begin[i] additional elements before x along axis i and
/// end[i] after it. Both are viewed as rows: x lies in consecutive elements of a row of y. A
/// row of y is either all border or has `before` border elements in front of x.
class Border {
 public:
  Border(const Shape& shape, const Shape& begin, const Shape& result)
      : x_(shape), begin_(begin), y_(result) {
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] != result[i]) axis_ = i;
    }
    for (int i = axis_; i < shape.rank(); ++i) {
      x_width_ *= shape[i];
      y_width_ *= result[i];
    }
    for (int i = 0; i < axis_; ++i) x_rows_ *= shape[i];
    for (int i = 0; i < axis_; ++i) y_rows_ *= result[i];
    if (axis_ < shape.rank() && shape[axis_] > 0) {
      before_ = begin_[axis_] * (x_width_ / shape[axis_]);
    }
  }

  int64_t x_rows() const { return x_rows_; }
  int64_t y_rows() const { return y_rows_; }
  int64_t x_width() const { return x_width_; }
  int64_t y_width() const { return y_width_; }
  int64_t before() const { return before_; }

  /// Row of x in row `r` of y; -1 if that row is all border.
  int64_t x_row(int64_t r) const {
    int64_t row = 0;
    int64_t stride = 1;
    for (int i = axis_ - 1; i >= 0; --i) {
      const int64_t at = r % y_[i] - begin_[i];
      if (at < 0 || at >= x_[i]) return -1;
      row += at * stride;
      stride *= x_[i];
      r /= y_[i];
    }
    return row;
  }
  /// Row of y that contains row `r` of x.
  int64_t y_row(int64_t r) const {
    int64_t row = 0;
    int64_t stride = 1;
    for (int i = axis_ - 1; i >= 0; --i) {
      row += (r % x_[i] + begin_[i]) * stride;
      stride *= y_[i];
      r /= x_[i];
    }
    return row;
  }

  /// Writes rows [begin, end) of y.
  template <class T>
  void fill(const T* x, T value, T* y, int64_t begin, int64_t end) const {
    for (int64_t r = begin; r < end; ++r) {
      T* to = y + r * y_width_;
      const int64_t row = x_row(r);
      if (row < 0 || x_width_ == 0) {
        std::fill_n(to, y_width_, value);
        continue;
      }
      std::fill_n(to, before_, value);
      std::copy_n(x + row * x_width_, x_width_, to + before_);
      std::fill_n(to + before_ + x_width_, y_width_ - before_ - x_width_, value);
    }
  }

 private:
  Shape x_;
  Shape begin_;
  Shape y_;
  int axis_ = 0;  ///< last padded axis
  int64_t x_rows_ = 1;
  int64_t y_rows_ = 1;
  int64_t x_width_ = 1;
  int64_t y_width_ = 1;
  int64_t before_ = 0;
};

/// Shape of y. Throws GraphError unless `begin` and `end` have one number per axis and y has at
/// most Shape::max_elements elements.
Shape padded_shape(const Shape& x, const Shape& begin, const Shape& end);

}  // namespace qtape
