#include "qtape/calibrate/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "qtape/calibrate/batch.h"
#include "qtape/calibrate/range_search.h"
#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;
namespace {

using detail::ChannelRecord;

/// Range chosen by a method that needs data.
ValueRange<double> range_by(const ObserverMethod& method, const detail::ChannelData& data) {
  return std::visit(
      [&](const auto& each) -> ValueRange<double> {
        if constexpr (requires { each.range(data); }) return each.range(data);
        return {};
      },
      method);
}

std::string to_string(const Grid& grid) {
  return fmt::format("{} {}..{}, {}, {} division, zero point {}, scale by {}, floor {}{}",
                     to_string_view(grid.scheme), grid.limits.q_min, grid.limits.q_max,
                     to_string_view(grid.rounding), to_string_view(grid.division),
                     to_string_view(grid.zero_point), to_string_view(grid.denominator),
                     grid.floor, grid.power_of_two ? ", powers of two" : "");
}

/// Scale and zero point of one channel, for methods that return these instead of a range.
std::optional<QParams<double>> qparams_by(const ObserverMethod& method,
                                          const ChannelRecord& record, const Grid& grid) {
  return std::visit(
      [&](const auto& each) -> std::optional<QParams<double>> {
        if constexpr (requires { each.given(); }) return each.given();
        if constexpr (requires { each.qparams(record, grid); }) {
          return each.qparams(record, grid);
        }
        return std::nullopt;
      },
      method);
}

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

}  // namespace

Observer::Observer(ObserverMethod method, const Grid& grid, int64_t channels)
    : method_(std::move(method)), grid_(grid), bins_(0, 0) {
  validate(method_);
  check_grid(grid);
  std::visit(
      [&](const auto& each) {
        if constexpr (requires { each.check_grid(grid); }) each.check_grid(grid);
      },
      method_);
  const int64_t bins = detail::collected_by(method_).bins;
  const int64_t most = Shape::max_elements / std::max<int64_t>(1, bins);
  require<ArgumentError>(channels >= 1 && channels <= most,
                         "Observer: channels must be in 1..{}, got {}", most, channels);
  records_.resize(static_cast<size_t>(channels));
  bins_ = detail::BinCounts(channels, bins);
}

template <class T>
void Observer::observe(std::span<const T> x, const ChannelMap& map) {
  const FloatEnvironment floats;
  check_fits(static_cast<int64_t>(x.size()), map);
  const detail::Collected wanted = detail::collected_by(method_);
  const std::vector<ChannelRecord> batch = detail::records_of(x, map, wanted);
  non_finite_ += static_cast<int64_t>(x.size());
  for (size_t c = 0; c < batch.size(); ++c) {
    non_finite_ -= batch[c].count;
    if (batch[c].count == 0) continue;
    detail::join(records_[c], batch[c]);
    if (wanted.average_weight) {
      detail::blend(records_[c], batch[c].range, *wanted.average_weight, 1);
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
  require<GraphError>(map.block >= 1 && map.wrap >= 1 && map.stride >= 0,
                      "a channel map needs block and wrap of at least 1, got {} and {}",
                      map.block, map.wrap);
  require<GraphError>(map.segment >= 1, "a channel map needs segments of at least 1, got {}",
                      map.segment);
  if (elements == 0) return;
  require<GraphError>(
      map.wrap == 1 || map.stride > 0 || elements % (map.segment * map.wrap) == 0,
      "{} elements are not a multiple of {} channels of {} elements", elements, map.wrap,
      map.segment);
  const int64_t last = (elements - 1) / map.block * map.stride + map.wrap - 1;
  require<GraphError>(last < map.channels,
                      "{} elements need channel {}, the data have {} channels", elements, last,
                      map.channels);
  require_room(elements);
}

void Observer::require_room(int64_t more) const {
  require<GraphError>(more <= detail::max_elements - count() - non_finite_,
                      "an observer counts at most 2^53 elements");
}

int64_t Observer::count() const {
  int64_t count = 0;
  for (const ChannelRecord& each : records_) count += each.count;
  return count;
}

bool Observer::calibrated() const {
  return detail::given_by(method_) ||
         std::ranges::all_of(records_,
                             [](const ChannelRecord& each) { return each.count > 0; });
}

void Observer::require_calibrated() const {
  if (calibrated()) return;
  const auto unseen = std::ranges::find(records_, 0, &ChannelRecord::count);
  fail<GraphError>(
      "not calibrated: channel {} observed no finite value; {} NaN or infinite values were "
      "skipped",
      unseen - records_.begin(), non_finite_);
}

std::vector<ValueRange<double>> Observer::ranges() const {
  const FloatEnvironment floats;
  require_calibrated();
  if (detail::gives_qparams(method_)) {
    std::vector<ValueRange<double>> ends;
    for (const QParams<double>& q : qparams()) {
      ends.push_back(
          {value_of<double>(grid_.limits.q_min, q), value_of<double>(grid_.limits.q_max, q)});
    }
    return ends;
  }
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
      ranges[m].push_back(range_by(methods[m], {record, search}));
      if (methods.size() > 1) errors[m] += search.squared_error(ranges[m].back(), unit);
    }
  }
  return ranges[static_cast<size_t>(std::ranges::min_element(errors) - errors.begin())];
}

std::vector<QParams<double>> Observer::qparams() const {
  const FloatEnvironment floats;
  require_calibrated();
  std::vector<QParams<double>> qparams;
  if (detail::gives_qparams(method_)) {
    for (const ChannelRecord& each : records_) {
      qparams.push_back(*qparams_by(method_, each, grid_));
    }
    return qparams;
  }
  for (const ValueRange<double>& range : ranges()) {
    qparams.push_back(qparams_of(range, grid_));
  }
  return qparams;
}

void Observer::reset() { *this = Observer(method_, grid_, channels()); }

void Observer::merge(const Observer& other) {
  const FloatEnvironment floats;
  require<GraphError>(method_ == other.method_,
                      "cannot merge observers: methods are {} here and {} there",
                      to_string(method_), to_string(other.method_));
  require<GraphError>(grid_ == other.grid_,
                      "cannot merge observers: grids are {} here and {} there",
                      to_string(grid_), to_string(other.grid_));
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
