// The start of learned scales: the one rule of kernels, calibration and tools.
#pragma once

#include <cmath>

#include "qtape/kernels/quantize/quantize.h"

namespace qtape::kernels {

/// Sums over the finite values of one channel.
struct Magnitudes {
  double positive = 0;  ///< sum of the values above 0
  double negative = 0;  ///< sum of the magnitudes below 0
  double count = 0;

  double sum() const { return positive + negative; }
};

/// True for grids of at most 4 bits, where learned scales start by `lsq_start`. With more codes
/// its steps are too wide: Gaussian weights of 8 bits would fill a quarter of the codes. There
/// learned scales start at the range of the data, by `qparams_of`.
constexpr bool starts_by_magnitude(CodeLimits limits) {
  return limits.q_max - limits.q_min < 16;
}

/// Scale and zero point by the mean magnitude, in double: s = 2 mean|x| / sqrt(q_max) and zp =
/// 0 (Esser et al., arXiv 1902.08153). Affine: the codes are divided between the signs in
/// proportion to their sums, zp = q_min + round(n negative / sum) with n = q_max - q_min, and
/// the rule is that of a grid whose q_max is the larger side's share of n. So it is the rule
/// above for values of one sign, and for both signs alike. At least the floor; values of 0
/// alone give the grid of -1..1.
inline QParams<double> lsq_start(const Magnitudes& seen, const Grid& grid) {
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
  return {scale_in_use(2 * mean / std::sqrt(span * share), grid), q_min + below};
}

}  // namespace qtape::kernels
