// Search of the best range for the histogram of a channel and a grid.
#pragma once

#include <functional>
#include <vector>

#include "qtape/calibrate/histogram.h"
#include "qtape/core/grid.h"

namespace qtape::detail {

/// Searches ranges for one channel. All results lie within the smallest and largest value of
/// the data. If these are equal, they are the result.
class RangeSearch {
 public:
  /// `range` is that of the data before scaling to the units of `data`.
  RangeSearch(UnitData data, const ValueRange<double>& range, const Grid& grid);

  /// Range of Percentile.
  ValueRange<double> percentile(double percent) const;
  /// Range of Mse: the best of `steps` ranges.
  ValueRange<double> min_error(int64_t steps) const;
  /// Range of Histogram: the best of all ranges.
  ValueRange<double> min_error_of_ends() const;
  /// Range of Kl.
  ValueRange<double> min_divergence() const;
  /// Sum of (x - fake(x))^2 over the data, with the qparams of `range`, in units of 2^exponent
  /// squared. Values count as uniformly distributed over their bin. With the centre of the bin
  /// alone, the error would depend on the alignment of codes and bins of similar width.
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
  Grid grid_;  // floor in units of the data
};

}  // namespace qtape::detail
