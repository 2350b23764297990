// What observers keep of each channel, and what their methods see of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "qtape/core/grid.h"

namespace qtape::detail {

/// An observer counts no more: shares of counts are exact in double.
inline constexpr int64_t max_elements = int64_t{1} << 53;

/// Larger values are limited to it in moments: 2^53 squares of differences have a finite sum.
inline constexpr double moment_limit = 0x1p480;
inline double for_moments(double x) { return std::clamp(x, -moment_limit, moment_limit); }

/// One channel beside its histogram, or one channel of one batch.
struct ChannelRecord {
  int64_t count = 0;           ///< finite values
  ValueRange<double> range;    ///< smallest and largest of them
  int64_t batches = 0;         ///< those that the averages are of
  ValueRange<double> average;  ///< running means of a batch's smallest and largest value
  double mean = 0;
  double squares = 0;   ///< sum of (x - mean)^2
  double positive = 0;  ///< sum of the values above 0
  double negative = 0;  ///< sum of the magnitudes below 0
  bool operator==(const ChannelRecord&) const = default;
};

/// Adds count, range and moments of `other`: Chan, Golub and LeVeque, "Algorithms for computing
/// the sample variance", equation 2.1.
void join(ChannelRecord& record, const ChannelRecord& other);
/// Makes the averages a mean of themselves and `other`, which has the share `weight` in it and
/// `batches` batches. `join` must have come before: the averages stay within the range.
void blend(ChannelRecord& record, const ValueRange<double>& other, double weight,
           int64_t batches);

/// What a method wants of each channel beside count, smallest and largest value.
struct Collected {
  int64_t bins = 0;  ///< of the histogram; 0 for none
  std::optional<double> average_weight =
      std::nullopt;         ///< of a new batch, where averages are kept
  bool moments = false;     ///< mean and squares
  bool magnitudes = false;  ///< sums of positive values and of negative ones
};

class RangeSearch;

/// What a method chooses a channel's range from.
struct ChannelData {
  const ChannelRecord& record;
  const RangeSearch& search;  ///< on the histogram; without one, on no data
};

}  // namespace qtape::detail
