// Counts of values in bins of equal width: what calibration remembers of the data.
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

/// What was seen of one channel, in units of a power of two above max|x|: nothing that is
/// computed from it can overflow.
struct UnitData {
  std::vector<Bin> bins;  ///< ascending, none empty, cut at min and max; zeros are [0, 0]
  ValueRange<double> range;
  double width = 0;  ///< of a bin that is not cut
  int exponent = 0;  ///< the unit is 2^exponent
};

/// For each channel the counts of nonzero values in `bins` bins of equal width for each sign.
/// They reach to the smallest power of two above max|x|: where it doubles, neighbouring bins
/// become one, so neither order nor batches nor merging show in the counts. Widths are at least
/// 2^-1022, where x / width is still exact.
class BinCounts {
 public:
  /// `bins` must be a power of two; 0 keeps nothing.
  BinCounts(int64_t channels, int64_t bins);
  bool operator==(const BinCounts&) const = default;

  bool empty() const { return bins_ == 0; }
  /// 2^exponent is the smallest power of two above max|x| of all channels.
  int largest_exponent() const;
  /// Makes room for values up to `max_abs`.
  void widen(int64_t channel, double max_abs);
  /// Counts the finite values of `x`; `widen` must have made room for them.
  template <class T>
  void add(int64_t channel, std::span<const T> x);
  /// Adds the counts of `other`, which has the same channels and bins.
  void merge(const BinCounts& other);

  /// The channel's data; `range` is its smallest and largest value, `count` the finite values.
  /// No bins where none are kept.
  UnitData unit_data(int64_t channel, const ValueRange<double>& range, int64_t count) const;

 private:
  int exponent(int64_t channel) const;
  std::span<int64_t> row(std::vector<int64_t>& counts, int64_t channel) const;
  std::span<const int64_t> row(const std::vector<int64_t>& counts, int64_t channel) const;

  int64_t bins_ = 0;
  int bits_ = 0;                   // bins_ = 2^bits_
  std::vector<double> per_width_;  // bins in a unit of x: a power of two
  std::vector<int64_t> negative_;
  std::vector<int64_t> positive_;
};

}  // namespace qtape::detail
