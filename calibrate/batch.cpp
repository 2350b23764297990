#include "qtape/calibrate/batch.h"

#include <cmath>
#include <limits>

namespace qtape::detail {
namespace {

template <class T>
bool is_finite(T x) {
  return std::fabs(x) <= std::numeric_limits<T>::max();
}

/// Adding 0 turns -0 into 0.
template <class T>
void add_range(std::span<const T> x, ChannelRecord& record) {
  T min = std::numeric_limits<T>::infinity();
  T max = -min;
  int64_t count = 0;
  for (const T value : x) {
    const bool finite = is_finite(value);
    count += finite ? 1 : 0;
    min = finite && value < min ? value : min;
    max = finite && value > max ? value : max;
  }
  record.count += count;
  record.range.merge({static_cast<double>(min) + 0.0, static_cast<double>(max) + 0.0});
}

template <class T>
void add_sum(std::span<const T> x, double& sum) {
  for (const T value : x) {
    if (is_finite(value)) sum += for_moments(static_cast<double>(value));
  }
}

template <class T>
void add_squares(std::span<const T> x, double& rest, ChannelRecord& record) {
  for (const T value : x) {
    if (!is_finite(value)) continue;
    const double difference = for_moments(static_cast<double>(value)) - record.mean;
    rest += difference;
    record.squares += difference * difference;
  }
}

template <class T>
void add_magnitudes(std::span<const T> x, ChannelRecord& record) {
  for (const T value : x) {
    if (!is_finite(value)) continue;
    const double v = for_moments(static_cast<double>(value));
    (v > 0 ? record.positive : record.negative) += std::fabs(v);
  }
}

/// Two passes, corrected by the rounding error of the mean: Chan, Golub and LeVeque,
/// "Algorithms for computing the sample variance", equation 1.7.
template <class T>
void add_moments(std::span<const T> x, const ChannelMap& map,
                 std::vector<ChannelRecord>& records) {
  for_each_run(x, map, [&](int64_t channel, std::span<const T> run) {
    add_sum(run, records[static_cast<size_t>(channel)].mean);
  });
  for (ChannelRecord& each : records) {
    if (each.count > 0) each.mean /= static_cast<double>(each.count);
  }
  std::vector<double> rests(records.size());
  for_each_run(x, map, [&](int64_t channel, std::span<const T> run) {
    const auto c = static_cast<size_t>(channel);
    add_squares(run, rests[c], records[c]);
  });
  for (size_t c = 0; c < records.size(); ++c) {
    if (records[c].count == 0) continue;
    const double mean_rest = rests[c] / static_cast<double>(records[c].count);
    records[c].squares = std::max(records[c].squares - rests[c] * mean_rest, 0.0);
    records[c].mean += mean_rest;
  }
}

}  // namespace

template <class T>
std::vector<ChannelRecord> records_of(std::span<const T> x, const ChannelMap& map,
                                      const Collected& wanted) {
  std::vector<ChannelRecord> records(static_cast<size_t>(map.channels));
  for_each_run(x, map, [&](int64_t channel, std::span<const T> run) {
    add_range(run, records[static_cast<size_t>(channel)]);
  });
  if (wanted.moments) add_moments(x, map, records);
  if (wanted.magnitudes) {
    for_each_run(x, map, [&](int64_t channel, std::span<const T> run) {
      add_magnitudes(run, records[static_cast<size_t>(channel)]);
    });
  }
  return records;
}

template std::vector<ChannelRecord> records_of(std::span<const float>, const ChannelMap&,
                                               const Collected&);
template std::vector<ChannelRecord> records_of(std::span<const double>, const ChannelMap&,
                                               const Collected&);

}  // namespace qtape::detail
