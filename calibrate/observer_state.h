// What observers keep of each channel, and which methods need which part of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qtape/calibrate/observer_method.h"
#include "qtape/core/grid.h"
#include "qtape/core/section.h"

namespace qtape::detail {

/// An observer counts no more: files keep counts as f64.
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
  double squares = 0;  ///< sum of (x - mean)^2
};

/// Adds count, range and moments of `other`: Chan, Golub and LeVeque, "Algorithms for computing
/// the sample variance", equation 2.1.
void join(ChannelRecord& record, const ChannelRecord& other);
/// Makes the averages a mean of themselves and `other`, which has the share `weight` in it and
/// `batches` batches. `join` must have come before: the averages stay within the range.
void blend(ChannelRecord& record, const ValueRange<double>& other, double weight,
           int64_t batches);

/// The parts of the state that a method reads.
struct Needs {
  int64_t bins = 0;                      ///< of the histogram; 0 for none
  std::optional<double> average_weight;  ///< of the new batch, where averages are kept
  bool moments = false;                  ///< mean and squares
};
Needs needs_of(const ObserverMethod& method);

/// The methods that a Mix chooses from; of all others the method itself.
std::vector<ObserverMethod> candidates_of(const ObserverMethod& method);

/// Method and grid as the settings of a Section.
std::map<std::string, Section::Setting> settings_of(const ObserverMethod& method,
                                                    const Grid& grid);

}  // namespace qtape::detail
