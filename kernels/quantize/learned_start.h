// Initial values of learned scales, shared by kernels, calibration and tools.
#pragma once

#include <cmath>

#include "qtape/kernels/quantize/quantize.h"

namespace qtape::kernels {

/// Sums over the finite values of one channel.
struct Magnitudes {
  double positive = 0;  ///< sum of the positive values
  double negative = 0;  ///< sum of the magnitudes of the negative values
  double count = 0;

  double sum() const { return positive + negative; }
};

/// True for grids of at most 4 bits, where `lsq_start` initialises learned scales. Its steps
/// are too wide for more codes: Gaussian weights of 8 bits would use a quarter of them. There
/// `qparams_of` initialises learned scales from the range of the data.
constexpr bool starts_by_magnitude(CodeLimits limits) {
  return limits.q_max - limits.q_min < 16;
}

/// Scale and zero point from the mean magnitude, in double.
/// Symmetric: s = 2 mean|x| / sqrt(q_max) and zp = 0 (Esser et al., arXiv 1902.08153).
/// Affine: the n = q_max - q_min codes are divided between the signs in proportion to their
/// sums: zp = q_min + round(n negative / sum) and
/// s = 2 mean|x| / sqrt(n max(positive, negative) / sum).
/// For values of one sign this is the symmetric rule with n instead of q_max. Values that are
/// not around 0 have large magnitudes in a small range: if `qparams_of` the range has a smaller
/// scale, it is used instead. The scale is at least the floor. If all values are 0, the result
/// is the grid of [-1, 1].
inline QParams<double> lsq_start(const Magnitudes& seen, const ValueRange<double>& range,
                                 const Grid& grid) {
  const auto [q_min, q_max] = grid.limits;
  const double sum = seen.sum();
  if (!(sum > 0)) return qparams_of(ValueRange<double>{-1, 1}, grid);
  const double mean = sum / seen.count;
  if (grid.scheme == Scheme::Symmetric) {
    return {scale_in_use(2 * mean / std::sqrt(double(q_max)), grid), 0};
  }
  const double span = q_max - q_min;
  const double share = std::max(seen.positive, seen.negative) / sum;
  const double below = round_half_even(span * (seen.negative / sum));
  const QParams<double> start{scale_in_use(2 * mean / std::sqrt(span * share), grid),
                              q_min + below};
  const QParams<double> of_range = qparams_of(range, grid);
  return of_range.scale < start.scale ? of_range : start;
}

}  // namespace qtape::kernels
