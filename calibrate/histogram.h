// Histograms of values in bins of equal width, collected during calibration.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qtape/core/grid.h"

namespace qtape::detail {

/// `weight` values within [low, high].
struct Bin {
  double low = 0;
  double high = 0;
  double weight = 0;
};

/// Data of one channel, in units of a power of two above max|x|, so that no computation on them
/// overflows.
struct UnitData {
  std::vector<Bin> bins;  ///< ascending, non-empty, cut at min and max; zeros are [0, 0]
  ValueRange<double> range;
  double width = 0;  ///< width of a bin that is not cut
  int exponent = 0;  ///< the unit is 2^exponent
};

/// For each channel, counts of nonzero values in `bins` bins of equal width for each sign. The
/// bins extend to the smallest power of two above max|x|. When it doubles, adjacent bins are
/// merged, so the counts depend neither on the order of the data nor on batches or merging.
/// Widths are at least 2^-1022, for which x / width is still exact.
class BinCounts {
 public:
  /// `bins` must be a power of two; 0 collects nothing.
  BinCounts(int64_t channels, int64_t bins);
  bool operator==(const BinCounts&) const = default;

  bool empty() const { return bins_ == 0; }
  /// Exponent e such that 2^e is the smallest power of two above max|x| of all channels.
  int largest_exponent() const;
  /// Extends the bins to values up to `max_abs`.
  void widen(int64_t channel, double max_abs);
  /// Counts the finite values of `x`, which must be within the range set by `widen`.
  template <class T>
  void add(int64_t channel, std::span<const T> x);
  /// Adds the counts of `other`, which must have the same channels and bins.
  void merge(const BinCounts& other);

  /// Data of a channel. `range` is its smallest and largest value, `count` the number of finite
  /// values. The result has no bins if none are collected.
  UnitData unit_data(int64_t channel, const ValueRange<double>& range, int64_t count) const;

 private:
  int exponent(int64_t channel) const;
  std::span<int64_t> row(std::vector<int64_t>& counts, int64_t channel) const;
  std::span<const int64_t> row(const std::vector<int64_t>& counts, int64_t channel) const;

  int64_t bins_ = 0;
  int bits_ = 0;                   // bins_ = 2^bits_
  std::vector<double> per_width_;  // bins per unit of x: a power of two
  std::vector<int64_t> negative_;
  std::vector<int64_t> positive_;
};

}  // namespace qtape::detail
