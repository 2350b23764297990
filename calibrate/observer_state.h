// Statistics that observers collect for each channel, and the data passed to their methods.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "qtape/core/grid.h"

namespace qtape::detail {

/// Maximum number of elements of an observer, so that counts are exact in double.
inline constexpr int64_t max_elements = int64_t{1} << 53;

/// Larger values are clamped in moments: 2^53 squared differences then have a finite sum.
inline constexpr double moment_limit = 0x1p480;
inline double for_moments(double x) { return std::clamp(x, -moment_limit, moment_limit); }

/// Statistics of one channel without its histogram, or of one channel of one batch.
struct ChannelRecord {
  int64_t count = 0;           ///< finite values
  ValueRange<double> range;    ///< smallest and largest finite value
  int64_t batches = 0;         ///< number of batches in the averages
  ValueRange<double> average;  ///< running means of the range of each batch
  double mean = 0;
  double squares = 0;   ///< sum of (x - mean)^2
  double positive = 0;  ///< sum of the positive values
  double negative = 0;  ///< sum of the magnitudes of the negative values
  bool operator==(const ChannelRecord&) const = default;
};

/// Adds count, range and moments of `other`: Chan, Golub and LeVeque, "Algorithms for computing
/// the sample variance", equation 2.1.
void join(ChannelRecord& record, const ChannelRecord& other);
/// Averages the running means with `other`, which has the weight `weight` and represents
/// `batches` batches. Requires a preceding `join`: the averages are clamped to the range.
void blend(ChannelRecord& record, const ValueRange<double>& other, double weight,
           int64_t batches);

/// Statistics that a method collects for each channel in addition to count and range.
struct Collected {
  int64_t bins = 0;  ///< bins of the histogram; 0 for none
  /// Weight of a new batch in the averages; nullopt for none.
  std::optional<double> average_weight = std::nullopt;
  bool moments = false;     ///< mean and squares
  bool magnitudes = false;  ///< sums of positive values and of negative ones
};

class RangeSearch;

/// Data from which a method chooses the range of a channel.
struct ChannelData {
  const ChannelRecord& record;
  const RangeSearch& search;  ///< search on the histogram, which is empty if none was collected
};

}  // namespace qtape::detail
