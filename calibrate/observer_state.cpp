#include "qtape/calibrate/observer_state.h"

namespace qtape::detail {

void join(ChannelRecord& record, const ChannelRecord& other) {
  if (other.count == 0) return;
  const auto here = static_cast<double>(record.count);
  const auto there = static_cast<double>(other.count);
  const double share = there / (here + there);
  const double difference = other.mean - record.mean;
  record.squares += other.squares + difference * difference * (here * share);
  record.mean = record.count == 0 ? other.mean : record.mean + difference * share;
  record.count += other.count;
  record.positive += other.positive;
  record.negative += other.negative;
  record.range.merge(other.range);
}

void blend(ChannelRecord& record, const ValueRange<double>& other, double weight,
           int64_t batches) {
  const auto mean = [&](double a, double b) {
    return std::clamp((1 - weight) * a + weight * b, record.range.min, record.range.max);
  };
  record.average = record.batches == 0
                       ? other
                       : ValueRange<double>{mean(record.average.min, other.min),
                                            mean(record.average.max, other.max)};
  record.batches += batches;
}

}  // namespace qtape::detail
