// Common parts of Softmax, LogSoftmax and SoftmaxCrossEntropy. Sums are in double, in the order
// given by a fixed number of lanes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "qtape/core/math.h"
#include "qtape/kernels/simd/vectorize.h"

namespace qtape::softmax {

using namespace kernels;

/// Number of exponentials that are buffered at once.
inline constexpr int64_t block = 64;

/// Eight partial sums.
class Lanes {
 public:
  /// Adds values[0 .. n), element i to lane i % 8.
  void add(const double* values, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      for (int64_t k = 0; k < 8; ++k) lanes_[k] += values[i + k];
    }
    for (int64_t k = 0; i + k < n; ++k) lanes_[k] += values[i + k];
  }
  double sum() const {
    return ((lanes_[0] + lanes_[4]) + (lanes_[2] + lanes_[6])) +
           ((lanes_[1] + lanes_[5]) + (lanes_[3] + lanes_[7]));
  }

 private:
  double lanes_[8] = {};
};

/// Largest of x[0 .. n), ignoring NaN; -infinity if there is none.
template <class T>
inline T largest(const T* x, int64_t n) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  T lanes[16];
  for (T& lane : lanes) lane = lowest;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int64_t k = 0; k < 16; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  }
  T result = lowest;
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  if (n < 16) return result;
  for (const T lane : lanes) result = lane > result ? lane : result;
  return result;
}

/// Sum of f(i) for i in [0, n). Calls `take(i, values, width)` with values f(i) .. f(i + width
/// - 1).
template <class F, class Take>
inline double sum_of(int64_t n, const F& f, const Take& take) {
  alignas(64) double values[block];
  Lanes lanes;
  for (int64_t i = 0; i < n; i += block) {
    const int64_t width = std::min(block, n - i);
    QTAPE_INDEPENDENT
    for (int64_t k = 0; k < width; ++k) values[k] = f(i + k);
    take(i, values, width);
    lanes.add(values, width);
  }
  return lanes.sum();
}

template <class F>
inline double sum_of(int64_t n, const F& f) {
  return sum_of(n, f, [](int64_t, const double*, int64_t) {});
}

/// y = exp(x - peak), where y may be x; returns the sum before rounding to T.
template <class T>
inline double exponentials(const T* x, double peak, T* y, int64_t n) {
  return sum_of(
      n, [&](int64_t i) { return math::exp(double{x[i]} - peak); },
      [&](int64_t i, const double* values, int64_t width) {
        QTAPE_INDEPENDENT
        for (int64_t k = 0; k < width; ++k) y[i + k] = static_cast<T>(values[k]);
      });
}

/// y *= factor, rounded once.
template <class T>
inline void scale(T* y, double factor, int64_t n) {
  QTAPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(double{y[i]} * factor);
}

}  // namespace qtape::softmax
