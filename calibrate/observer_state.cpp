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

Needs needs_of(const ObserverMethod& method) {
  Needs needs;
  if (std::holds_alternative<Mix>(method)) needs.bins = Histogram{}.bins;
  for (const ObserverMethod& candidate : candidates_of(method)) {
    std::visit(
        [&](const auto& each) {
          if constexpr (requires { each.bins; }) needs.bins = each.bins;
          if constexpr (requires { each.averaging_constant; })
            needs.average_weight = each.averaging_constant;
          if constexpr (requires { each.deviations; }) needs.moments = true;
        },
        candidate);
  }
  return needs;
}

std::vector<ObserverMethod> candidates_of(const ObserverMethod& method) {
  const auto* mix = std::get_if<Mix>(&method);
  if (mix == nullptr) return {method};
  std::vector<ObserverMethod> candidates;
  for (const std::string& name : mix->candidates) candidates.push_back(observer_method(name));
  return candidates;
}

}  // namespace qtape::detail
