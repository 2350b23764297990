// Data for the tests of observers, and an independent quantization for comparison of ranges.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qtape/calibrate/observer.h"
#include "qtape/core/random.h"

namespace qtape::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

/// Uniform in [low, high).
inline Values uniform(size_t n, double low, double high, uint64_t stream = 1) {
  const Random random(11, stream);
  Values x(n);
  for (size_t i = 0; i < n; ++i) x[i] = low + (high - low) * random.uniform(i);
  return x;
}

/// Normal with mean 0 by Box and Muller.
inline Values gaussian(size_t n, double sigma = 1, uint64_t stream = 2) {
  const Random random(12, stream);
  Values x(n);
  for (size_t i = 0; i < n; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform(2 * i)));
    x[i] = sigma * radius * std::cos(6.283185307179586 * random.uniform(2 * i + 1));
  }
  return x;
}

/// Exponential with mean 1; with alternating signs if `two_sided`.
inline Values exponential(size_t n, bool two_sided, uint64_t stream = 3) {
  const Random random(13, stream);
  Values x(n);
  for (size_t i = 0; i < n; ++i) {
    x[i] = -std::log(1 - random.uniform(i)) * (two_sided && i % 2 == 0 ? -1 : 1);
  }
  return x;
}

inline Values with(Values x, const Values& more) {
  x.insert(x.end(), more.begin(), more.end());
  return x;
}

inline Grid grid_of(int bits, CodeRange range, Scheme scheme = Scheme::Symmetric) {
  Grid grid;
  grid.limits = code_limits(bits, range);
  grid.scheme = scheme;
  return grid;
}

inline Observer observed(const ObserverMethod& method, const Grid& grid, const Values& x) {
  Observer observer(method, grid, 1);
  observer.observe<double>(x, {});
  return observer;
}

inline ValueRange<double> range_by(const ObserverMethod& method, const Grid& grid,
                                   const Values& x) {
  return observed(method, grid, x).ranges()[0];
}

/// Returns the sum of (x - fake(x))^2 for `range`, with ties to even and exact division.
inline double raw_error(const Values& x, const ValueRange<double>& range, const Grid& grid) {
  const double q_min = grid.limits.q_min;
  const double q_max = grid.limits.q_max;
  double scale = std::max(std::fabs(range.min), std::fabs(range.max)) / q_max;
  double zero = 0;
  if (grid.scheme == Scheme::Affine) {
    const double low = std::min(range.min, 0.0);
    scale = (std::max(range.max, 0.0) - low) / (q_max - q_min);
    scale = std::max(scale, grid.floor);
    zero = q_min - std::nearbyint(low / scale);
  }
  scale = std::max(scale, grid.floor);
  double sum = 0;
  for (const double value : x) {
    const double code = std::clamp(std::nearbyint(value / scale) + zero, q_min, q_max);
    const double difference = value - (code - zero) * scale;
    sum += difference * difference;
  }
  return sum;
}

inline ValueRange<double> extent(const Values& x) {
  const auto [min, max] = std::minmax_element(x.begin(), x.end());
  return {*min, *max};
}

}  // namespace qtape::test
