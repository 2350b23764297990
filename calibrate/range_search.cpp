#include "qtape/calibrate/range_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "qtape/core/math.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape::detail {

using namespace kernels;
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// With few bins, clipping loses little by this measure: the divergence of n bins is at most
/// log n. Therefore a range must contain this many bins with data, as the first range of
/// TensorRT, or half of them.
constexpr size_t min_bins = 128;

double centre(const Bin& bin) { return bin.low + (bin.high - bin.low) / 2; }

/// Mean of d^2 for d uniformly distributed from a to b.
double mean_square(double a, double b) { return (a * a + a * b + b * b) / 3; }

/// Mean of (x - fake(x))^2 for x uniformly distributed over a bin. The cell of a code is one
/// scale wide, except the outermost ones. A bin consists of a partial cell at each end and
/// whole cells between.
double mean_error(const Bin& bin, const QParams<double>& q, const Grid& grid) {
  const double low_code = code_of(bin.low, q, grid);
  const double high_code = bin.high == bin.low ? low_code : code_of(bin.high, q, grid);
  const double a = bin.low - value_of(low_code, q);
  const double b = bin.high - value_of(high_code, q);
  if (low_code == high_code) return mean_square(a, b);
  const double half = q.scale / 2;
  const double first = std::max(half - a, 0.0);
  const double last = std::max(b + half, 0.0);
  const double whole = (high_code - low_code - 1) * q.scale;
  const double length = first + last + whole;
  if (length <= 0) return a * a;
  return (first * mean_square(a, half) + last * mean_square(-half, b) +
          whole * mean_square(-half, half)) /
         length;
}

/// Value above which `count` of the values in `bins` lie.
double upper_tail(const std::vector<Bin>& bins, double count) {
  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin) {
    if (count < bin->weight) return bin->high - count / bin->weight * (bin->high - bin->low);
    count -= bin->weight;
  }
  return bins.front().low;
}

/// Bins of -x.
std::vector<Bin> mirrored(const std::vector<Bin>& bins) {
  std::vector<Bin> result;
  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin) {
    result.push_back({-bin->high, -bin->low, bin->weight});
  }
  return result;
}

/// Bins of |x|. Bins of both signs coincide, except those cut at min or max.
std::vector<Bin> folded(const std::vector<Bin>& bins) {
  std::vector<Bin> sorted = bins;
  for (Bin& bin : sorted) {
    if (bin.low < 0) bin = {-bin.high, -bin.low, bin.weight};
  }
  std::ranges::sort(sorted, {}, [](const Bin& bin) { return std::pair(bin.low, bin.high); });
  std::vector<Bin> result;
  for (const Bin& bin : sorted) {
    const bool zeros = result.empty() || result.back().high == 0;
    if (zeros || result.back().low != bin.low) {
      result.push_back(bin);
      continue;
    }
    result.back().high = bin.high;
    result.back().weight += bin.weight;
  }
  return result;
}

struct Found {
  double fraction = 1;
  double loss = infinity;
};

/// Fraction in (0, 1] with the smallest loss, the largest of equals. Tries 128 fractions, then
/// twice those around the best at an eighth of the distance.
template <class Loss>
Found best_fraction(const Loss& loss) {
  double step = 1.0 / 128;
  Found best{1, loss(1)};
  const auto look = [&](double fraction) {
    if (fraction <= 0 || fraction > 1) return;
    const double found = loss(fraction);
    if (found < best.loss) best = {fraction, found};
  };
  for (int k = 127; k >= 1; --k) look(k * step);
  for (int level = 0; level < 2; ++level) {
    step /= 8;
    const double middle = best.fraction;
    for (int k = 8; k >= -8; --k) {
      if (k != 0) look(middle + k * step);
    }
  }
  return best;
}

/// Numbers of values inside and outside of a range.
struct Reference {
  double inside = 0;  ///< values within the range
  double below = 0;   ///< values that saturate into the first bin of the range
  double above = 0;   ///< values that saturate into the last bin of the range
  double total() const { return inside + below + above; }
};

Reference reference_of(const std::vector<Bin>& bins, size_t begin, size_t end) {
  Reference reference;
  for (size_t k = 0; k < bins.size(); ++k) {
    double& part = k < begin ? reference.below : k < end ? reference.inside : reference.above;
    part += bins[k].weight;
  }
  return reference;
}

}  // namespace

RangeSearch::RangeSearch(UnitData data, const ValueRange<double>& range, const Grid& grid)
    : data_(std::move(data)), range_(range), grid_(grid) {
  // A scale above 2^900 units or below 2^-900 is treated as one at that limit.
  grid_.floor = std::clamp(std::ldexp(grid.floor, -data_.exponent), 0x1p-900, 0x1p900);
}

ValueRange<double> RangeSearch::limited(const ValueRange<double>& range) const {
  const auto [min, max] = data_.range;
  return {std::clamp(range.min, min, max), std::clamp(range.max, min, max)};
}

ValueRange<double> RangeSearch::restored(const ValueRange<double>& range) const {
  const auto back = [&](double end) {
    return std::clamp(std::ldexp(end, data_.exponent), range_.min, range_.max);
  };
  return {back(range.min), back(range.max)};
}

ValueRange<double> RangeSearch::shrunk(double fraction) const {
  if (grid_.scheme == Scheme::Affine) {
    return limited({fraction * data_.range.min, fraction * data_.range.max});
  }
  const double end = fraction * data_.range.max_abs();
  return limited({-end, end});
}

double RangeSearch::error_in(const ValueRange<double>& range) const {
  const QParams<double> q = qparams_of(range, grid_);
  double sum = 0;
  for (const Bin& bin : data_.bins) sum += bin.weight * mean_error(bin, q, grid_);
  return sum;
}

double RangeSearch::squared_error(const ValueRange<double>& range, int exponent) const {
  const double error = error_in(
      {std::ldexp(range.min, -data_.exponent), std::ldexp(range.max, -data_.exponent)});
  return std::ldexp(error, 2 * (data_.exponent - exponent));
}

ValueRange<double> RangeSearch::percentile(double percent) const {
  double total = 0;
  for (const Bin& bin : data_.bins) total += bin.weight;
  const double rest = (100 - percent) / 100 * total;
  if (grid_.scheme == Scheme::Affine) {
    return restored(limited(
        {-upper_tail(mirrored(data_.bins), rest / 2), upper_tail(data_.bins, rest / 2)}));
  }
  const double end = upper_tail(folded(data_.bins), rest);
  return restored(limited({-end, end}));
}

ValueRange<double> RangeSearch::min_error(int64_t steps) const {
  if (range_.min == range_.max) return range_;
  Found best;
  for (int64_t k = steps; k >= 1; --k) {
    const double fraction = static_cast<double>(k) / static_cast<double>(steps);
    const double loss = error_in(shrunk(fraction));
    if (loss < best.loss) best = {fraction, loss};
  }
  return restored(shrunk(best.fraction));
}

/// Searches both ends at once; then, if the grid has two ends, each end separately, twice.
ValueRange<double> RangeSearch::search(const Loss& loss) const {
  if (range_.min == range_.max) return range_;
  const Found both = best_fraction([&](double f) { return loss(shrunk(f)); });
  ValueRange<double> best = shrunk(both.fraction);
  double least = both.loss;
  if (grid_.scheme == Scheme::Symmetric) return restored(best);
  const auto improve = [&](const auto& with_end) {
    const Found found = best_fraction([&](double f) { return loss(limited(with_end(f))); });
    if (found.loss >= least) return;
    best = limited(with_end(found.fraction));
    least = found.loss;
  };
  for (int round = 0; round < 2; ++round) {
    improve([&, low = best.min](double f) {
      return ValueRange<double>{low, f * data_.range.max};
    });
    improve([&, high = best.max](double f) {
      return ValueRange<double>{f * data_.range.min, high};
    });
  }
  return restored(best);
}

ValueRange<double> RangeSearch::min_error_of_ends() const {
  return search([&](const ValueRange<double>& range) { return error_in(range); });
}

/// Bins that contribute to the loss. Zeros have an exact code on every grid, and symmetric
/// unsigned grids have no code for negative values, whatever the range.
std::vector<Bin> RangeSearch::bins_with_loss() const {
  const bool unsigned_codes = grid_.scheme == Scheme::Symmetric && grid_.limits.q_min == 0;
  std::vector<Bin> bins;
  for (const Bin& bin : data_.bins) {
    const double middle = centre(bin);
    if (middle > 0 || (middle < 0 && !unsigned_codes)) bins.push_back(bin);
  }
  return bins;
}

/// Sum of P log(P / Q) over the bins within `range`. P is the data, with those outside added to
/// the first and last of these bins. Q distributes the values of each code, without those from
/// outside, uniformly over its bins.
double RangeSearch::divergence(const std::vector<Bin>& bins,
                               const ValueRange<double>& range) const {
  const auto below = [&](const Bin& bin) { return centre(bin) < range.min; };
  const auto within = [&](const Bin& bin) { return centre(bin) <= range.max; };
  const auto begin =
      static_cast<size_t>(std::ranges::partition_point(bins, below) - bins.begin());
  const auto end =
      static_cast<size_t>(std::ranges::partition_point(bins, within) - bins.begin());
  if (end < begin + std::max<size_t>(1, std::min(min_bins, bins.size() / 2))) return infinity;
  const Reference reference = reference_of(bins, begin, end);
  const QParams<double> q = qparams_of(range, grid_);
  double sum = 0;
  for (size_t i = begin; i < end;) {
    const double code = code_of(centre(bins[i]), q, grid_);
    double mass = 0;
    size_t next = i;
    for (; next < end && code_of(centre(bins[next]), q, grid_) == code; ++next) {
      mass += bins[next].weight;
    }
    const double mean = mass / static_cast<double>(next - i) / reference.inside;
    for (; i < next; ++i) {
      const double outside =
          (i == begin ? reference.below : 0.0) + (i + 1 == end ? reference.above : 0.0);
      const double share = (bins[i].weight + outside) / reference.total();
      sum += share * math::log(share / mean);
    }
  }
  return sum;
}

ValueRange<double> RangeSearch::min_divergence() const {
  const std::vector<Bin> bins = bins_with_loss();
  return search([&](const ValueRange<double>& range) { return divergence(bins, range); });
}

}  // namespace qtape::detail
