#include "qtape/calibrate/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace qtape::detail {
namespace {

constexpr int min_width_exponent = -1022;

/// Merges groups of 2^shift adjacent bins.
void join_bins(std::span<int64_t> counts, int shift) {
  for (size_t k = 1; k < counts.size(); ++k) {
    const int64_t count = std::exchange(counts[k], 0);
    counts[k >> shift] += count;
  }
}

void add_joined(std::span<int64_t> to, std::span<const int64_t> from, int shift) {
  for (size_t k = 0; k < from.size(); ++k) to[k >> shift] += from[k];
}

int64_t sum(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

BinCounts::BinCounts(int64_t channels, int64_t bins) : bins_(bins) {
  if (bins == 0) return;
  bits_ = std::countr_zero(static_cast<uint64_t>(bins));
  const auto rows = static_cast<size_t>(channels);
  per_width_.assign(rows, std::ldexp(1.0, -min_width_exponent));
  negative_.resize(rows * static_cast<size_t>(bins));
  positive_.resize(rows * static_cast<size_t>(bins));
}

int BinCounts::exponent(int64_t channel) const {
  return bits_ - std::ilogb(per_width_[static_cast<size_t>(channel)]);
}

int BinCounts::largest_exponent() const {
  int largest = 0;
  for (size_t c = 0; c < per_width_.size(); ++c) {
    const int found = exponent(static_cast<int64_t>(c));
    largest = c == 0 ? found : std::max(largest, found);
  }
  return largest;
}

std::span<int64_t> BinCounts::row(std::vector<int64_t>& counts, int64_t channel) const {
  return std::span(counts).subspan(static_cast<size_t>(channel * bins_),
                                   static_cast<size_t>(bins_));
}

std::span<const int64_t> BinCounts::row(const std::vector<int64_t>& counts,
                                        int64_t channel) const {
  return std::span(counts).subspan(static_cast<size_t>(channel * bins_),
                                   static_cast<size_t>(bins_));
}

void BinCounts::widen(int64_t channel, double max_abs) {
  if (max_abs == 0 ||
      max_abs * per_width_[static_cast<size_t>(channel)] < static_cast<double>(bins_)) {
    return;
  }
  int wanted = 0;
  (void)std::frexp(max_abs, &wanted);
  const int shift = std::min(wanted - exponent(channel), bits_);
  join_bins(row(negative_, channel), shift);
  join_bins(row(positive_, channel), shift);
  per_width_[static_cast<size_t>(channel)] = std::ldexp(1.0, bits_ - wanted);
}

template <class T>
void BinCounts::add(int64_t channel, std::span<const T> x) {
  const double per_width = per_width_[static_cast<size_t>(channel)];
  int64_t* negative = row(negative_, channel).data();
  int64_t* positive = row(positive_, channel).data();
  for (const T value : x) {
    const double magnitude = std::fabs(static_cast<double>(value));
    if (value == 0 || !(magnitude <= std::numeric_limits<double>::max())) continue;
    ++(value < 0 ? negative : positive)[static_cast<size_t>(magnitude * per_width)];
  }
}

template void BinCounts::add(int64_t, std::span<const float>);
template void BinCounts::add(int64_t, std::span<const double>);

void BinCounts::merge(const BinCounts& other) {
  for (size_t c = 0; c < per_width_.size(); ++c) {
    const auto channel = static_cast<int64_t>(c);
    // Half of the range of the other, which is enough to extend the range here to it.
    widen(channel, static_cast<double>(bins_) / 2 / other.per_width_[c]);
    const int shift = std::min(exponent(channel) - other.exponent(channel), bits_);
    add_joined(row(negative_, channel), other.row(other.negative_, channel), shift);
    add_joined(row(positive_, channel), other.row(other.positive_, channel), shift);
  }
}

UnitData BinCounts::unit_data(int64_t channel, const ValueRange<double>& range,
                              int64_t count) const {
  UnitData data;
  if (empty()) return data;
  data.exponent = exponent(channel);
  data.width = std::ldexp(1.0, -bits_);
  data.range = {std::ldexp(range.min, -data.exponent), std::ldexp(range.max, -data.exponent)};
  const auto push = [&](double low, double high, int64_t values) {
    if (values == 0) return;
    data.bins.push_back({std::clamp(low, data.range.min, data.range.max),
                         std::clamp(high, data.range.min, data.range.max),
                         static_cast<double>(values)});
  };
  const auto negative = row(negative_, channel);
  const auto positive = row(positive_, channel);
  for (int64_t k = bins_ - 1; k >= 0; --k) {
    const double low = static_cast<double>(-k - 1) * data.width;
    push(low, low + data.width, negative[static_cast<size_t>(k)]);
  }
  push(0, 0, count - sum(negative) - sum(positive));
  for (int64_t k = 0; k < bins_; ++k) {
    const double low = static_cast<double>(k) * data.width;
    push(low, low + data.width, positive[static_cast<size_t>(k)]);
  }
  return data;
}

}  // namespace qtape::detail
