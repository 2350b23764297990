// The range that suits one channel's histogram and a grid best.
#pragma once

#include <functional>
#include <vector>

#include "qtape/calibrate/histogram.h"
#include "qtape/core/grid.h"

namespace qtape::detail {

/// Searches ranges for one channel. All results lie within the smallest and largest value of
/// the data; where these are equal, they are the result.
class RangeSearch {
 public:
  /// `range` is that of the data before it was scaled to the units of `data`.
  RangeSearch(UnitData data, const ValueRange<double>& range, const Grid& grid);

  /// The range of Percentile.
  ValueRange<double> percentile(double percent) const;
  /// The range of Mse: the best of `steps` ranges.
  ValueRange<double> least_error(int64_t steps) const;
  /// The range of Histogram: the best of all ranges.
  ValueRange<double> least_error_of_ends() const;
  /// The range of Kl.
  ValueRange<double> least_divergence() const;
  /// Sum of (x - fake(x))^2 over the data, with qparams of `range`, in units of 2^exponent
  /// squared. Values count as evenly spread over their bin: with its centre alone the error
  /// would depend on how codes and bins happen to align where both are about as wide.
  double squared_error(const ValueRange<double>& range, int exponent) const;

 private:
  using Loss = std::function<double(const ValueRange<double>&)>;

  // In units of the data from here on.
  double error_in(const ValueRange<double>& range) const;
  double divergence(const std::vector<Bin>& bins, const ValueRange<double>& range) const;
  std::vector<Bin> bins_with_loss() const;
  ValueRange<double> shrunk(double fraction) const;
  ValueRange<double> search(const Loss& loss) const;
  ValueRange<double> limited(const ValueRange<double>& range) const;
  ValueRange<double> restored(const ValueRange<double>& range) const;

  UnitData data_;
  ValueRange<double> range_;
  Grid grid_;  // its floor in units of the data
};

}  // namespace qtape::detail
