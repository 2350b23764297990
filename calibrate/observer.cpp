#include "qtape/calibrate/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "qtape/calibrate/batch.h"
#include "qtape/calibrate/range_search.h"
#include "qtape/core/error.h"
#include "qtape/core/settings.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;
namespace {

using detail::ChannelRecord;

/// The range that each method chooses for one channel.
struct RangeOf {
  const ChannelRecord& record;
  const detail::RangeSearch& search;
  const Grid& grid;

  ValueRange<double> operator()(const MinMax&) const { return record.range; }
  ValueRange<double> operator()(const MovingAverage&) const { return record.average; }
  ValueRange<double> operator()(const Histogram&) const { return search.least_error_of_ends(); }
  ValueRange<double> operator()(const Percentile& method) const {
    return search.percentile(method.percent);
  }
  ValueRange<double> operator()(const Mse& method) const {
    return search.least_error(method.steps);
  }
  ValueRange<double> operator()(const Kl&) const { return search.least_divergence(); }
  ValueRange<double> operator()(const ClipStd& method) const {
    const auto [min, max] = record.range;
    if (record.range.max_abs() > detail::moment_limit) return record.range;
    const double reach =
        method.deviations * std::sqrt(record.squares / static_cast<double>(record.count));
    return {std::clamp(record.mean - reach, min, max),
            std::clamp(record.mean + reach, min, max)};
  }
  ValueRange<double> operator()(const FixedScale& method) const {
    const QParams<double> q{method.scale, method.zero_point};
    return {value_of<double>(grid.limits.q_min, q), value_of<double>(grid.limits.q_max, q)};
  }
  /// A Mix stands for its candidates, none of which is a Mix.
  ValueRange<double> operator()(const Mix&) const { return {}; }
};

void check_grid(const Grid& grid) {
  const auto [q_min, q_max] = grid.limits;
  require<ArgumentError>(q_min >= -32768 && q_min <= 0 && q_max > 0 && q_max <= q_min + 65535,
                         "Observer: codes must have q_min <= 0 < q_max within 16 bits, got "
                         "q_min {} and q_max {}",
                         q_min, q_max);
  require<ArgumentError>(grid.floor >= double{std::numeric_limits<float>::min()} &&
                             grid.floor <= double{std::numeric_limits<float>::max()},
                         "Observer: floor must be a normal f32 above 0, got {}", grid.floor);
}

void check_zero_point(const FixedScale& method, const Grid& grid) {
  const bool symmetric = grid.scheme == Scheme::Symmetric;
  const int32_t least = symmetric ? 0 : grid.limits.q_min;
  const int32_t most = symmetric ? 0 : grid.limits.q_max;
  require<ArgumentError>(method.zero_point >= least && method.zero_point <= most,
                         "FixedScale: zero_point must be in {}..{} on this grid, got {}", least,
                         most, method.zero_point);
}

}  // namespace

Observer::Observer(ObserverMethod method, const Grid& grid, int64_t channels)
    : method_(std::move(method)), grid_(grid), bins_(0, 0) {
  validate(method_);
  check_grid(grid);
  if (const auto* fixed = std::get_if<FixedScale>(&method_)) check_zero_point(*fixed, grid);
  const int64_t bins = detail::needs_of(method_).bins;
  const int64_t most = Shape::max_elements / std::max<int64_t>(1, bins);
  require<ArgumentError>(channels >= 1 && channels <= most,
                         "Observer: channels must be in 1..{}, got {}", most, channels);
  records_.resize(static_cast<size_t>(channels));
  bins_ = detail::BinCounts(channels, bins);
}

template <class T>
void Observer::observe(std::span<const T> x, const ChannelMap& map) {
  check_fits(static_cast<int64_t>(x.size()), map);
  const detail::Needs needs = detail::needs_of(method_);
  const std::vector<ChannelRecord> batch = detail::records_of(x, map, needs.moments);
  non_finite_ += static_cast<int64_t>(x.size());
  for (size_t c = 0; c < batch.size(); ++c) {
    non_finite_ -= batch[c].count;
    if (batch[c].count == 0) continue;
    detail::join(records_[c], batch[c]);
    if (needs.average_weight) {
      detail::blend(records_[c], batch[c].range, *needs.average_weight, 1);
    }
    if (!bins_.empty()) bins_.widen(static_cast<int64_t>(c), batch[c].range.max_abs());
  }
  if (bins_.empty()) return;
  detail::for_each_run(
      x, map, [&](int64_t channel, std::span<const T> run) { bins_.add(channel, run); });
}

template void Observer::observe(std::span<const float>, const ChannelMap&);
template void Observer::observe(std::span<const double>, const ChannelMap&);

void Observer::check_fits(int64_t elements, const ChannelMap& map) const {
  require<GraphError>(map.channels == channels(),
                      "the observer has {} channels, the data have {}", channels(),
                      map.channels);
  if (elements == 0) return;
  const int64_t last = (elements - 1) / map.block * map.stride + map.wrap - 1;
  require<GraphError>(last < map.channels,
                      "{} elements need channel {}, the data have {} channels", elements, last,
                      map.channels);
  require_room(elements);
}

void Observer::require_room(int64_t more) const {
  require<GraphError>(more <= detail::max_elements - count() - non_finite_,
                      "an observer counts 2^53 elements at most");
}

int64_t Observer::count() const {
  int64_t count = 0;
  for (const ChannelRecord& each : records_) count += each.count;
  return count;
}

bool Observer::calibrated() const {
  return std::holds_alternative<FixedScale>(method_) ||
         std::ranges::all_of(records_,
                             [](const ChannelRecord& each) { return each.count > 0; });
}

void Observer::require_calibrated() const {
  if (calibrated()) return;
  const auto unseen = std::ranges::find(records_, 0, &ChannelRecord::count);
  fail<GraphError>(
      "not calibrated: channel {} saw no finite value; {} NaN or infinite were skipped",
      unseen - records_.begin(), non_finite_);
}

std::vector<ValueRange<double>> Observer::ranges() const {
  require_calibrated();
  const std::vector<ObserverMethod> methods = detail::candidates_of(method_);
  std::vector<std::vector<ValueRange<double>>> ranges(methods.size());
  std::vector<double> errors(methods.size());
  const int unit = bins_.largest_exponent();
  for (size_t c = 0; c < records_.size(); ++c) {
    const ChannelRecord& record = records_[c];
    const detail::RangeSearch search(
        bins_.unit_data(static_cast<int64_t>(c), record.range, record.count), record.range,
        grid_);
    for (size_t m = 0; m < methods.size(); ++m) {
      ranges[m].push_back(std::visit(RangeOf{record, search, grid_}, methods[m]));
      if (methods.size() > 1) errors[m] += search.squared_error(ranges[m].back(), unit);
    }
  }
  return ranges[static_cast<size_t>(std::ranges::min_element(errors) - errors.begin())];
}

std::vector<QParams<double>> Observer::qparams() const {
  if (const auto* fixed = std::get_if<FixedScale>(&method_)) {
    return std::vector<QParams<double>>(records_.size(), {fixed->scale, fixed->zero_point});
  }
  std::vector<QParams<double>> qparams;
  for (const ValueRange<double>& range : ranges()) {
    qparams.push_back(qparams_of(range, grid_));
  }
  return qparams;
}

void Observer::reset() { *this = Observer(method_, grid_, channels()); }

void Observer::merge(const Observer& other) {
  const auto here = detail::settings_of(method_, grid_);
  const auto there = detail::settings_of(other.method_, other.grid_);
  for (const auto& [key, value] : here) {
    const auto found = there.find(key);
    require<GraphError>(found != there.end() && found->second == value,
                        "cannot merge observers: {} is {} here and {} there", key,
                        settings::shown(value), settings::shown(there, key));
  }
  require<GraphError>(channels() == other.channels(),
                      "cannot merge observers: channels are {} here and {} there", channels(),
                      other.channels());
  require_room(other.count() + other.non_finite_);
  for (size_t c = 0; c < records_.size(); ++c) {
    const ChannelRecord record = other.records_[c];
    detail::join(records_[c], record);
    if (record.batches == 0) continue;
    const double share = static_cast<double>(record.batches) /
                         static_cast<double>(records_[c].batches + record.batches);
    detail::blend(records_[c], record.average, share, record.batches);
  }
  bins_.merge(other.bins_);
  non_finite_ += other.non_finite_;
}

}  // namespace qtape
