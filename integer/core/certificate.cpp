#include "qtape/integer/core/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "qtape/core/error.h"

namespace qtape {
namespace {

/// Range of the codes that are multiplied, extended to include 0, so that partial sums are
/// within the range of the whole.
struct Factors {
  int64_t low;
  int64_t high;
  bool stored_signed;
};

/// Returns the range of the sums of any subset of the products of one output's weights and
/// codes in `x`.
AccumulatorRange products_range(std::span<const int8_t> weights, Factors x) {
  AccumulatorRange range;
  for (int64_t w : weights) {
    range.low += std::min({w * x.low, w * x.high, int64_t{0}});
    range.high += std::max({w * x.low, w * x.high, int64_t{0}});
  }
  return range;
}

int64_t magnitude(AccumulatorRange range) {
  return std::max(std::abs(range.low), std::abs(range.high));
}

bool is_signed(const IntegerValue& x) {
  return x.type.dtype == DType::S8 || x.type.dtype == DType::S16;
}

Factors whole_of(const IntegerValue& x) {
  return {std::min<int64_t>(x.low, 0), std::max<int64_t>(x.high, 0), is_signed(x)};
}

/// The 8-bit parts of codes within a value; a single part for 8-bit codes.
class Parts {
 public:
  explicit Parts(const IntegerValue& x) : all_{whole_of(x)} {
    if (size_of(x.type.dtype) == 1) return;
    all_ = {{{all_[0].low >> 8, all_[0].high >> 8, is_signed(x)}, {0, 255, false}}};
    count_ = 2;
  }
  const Factors* begin() const { return all_.data(); }
  const Factors* end() const { return begin() + count_; }

 private:
  std::array<Factors, 2> all_;
  size_t count_ = 1;
};

/// Returns the largest magnitude of the sum of two products, over any two weights. Signed codes
/// are multiplied as unsigned ones with 128 added, so their lower end is 0.
int64_t pair_bound(std::span<const int8_t> weights, Factors x) {
  const int64_t max_code = x.stored_signed ? x.high + 128 : x.high;
  int64_t high[2] = {0, 0};
  int64_t low[2] = {0, 0};
  for (int64_t w : weights) {
    if (w > high[1]) high[1] = w;
    if (high[1] > high[0]) std::swap(high[0], high[1]);
    if (w < low[1]) low[1] = w;
    if (low[1] < low[0]) std::swap(low[0], low[1]);
  }
  return max_code * std::max(high[0] + high[1], -(low[0] + low[1]));
}

std::string margin(std::string_view what, int64_t bound, int64_t limit) {
  if (bound == 0) return fmt::format("{} 0 of {}", what, limit);
  return fmt::format("{} {} of {} (x{:.3g})", what, bound, limit,
                     static_cast<double>(limit) / static_cast<double>(bound));
}

}  // namespace

int64_t int8_accumulator_bound(const Certificate& c, const IntegerValue& x) {
  int64_t bound = c.part_bound;
  for (const Factors& part : Parts(x)) {
    if (!part.stored_signed) continue;
    const int64_t most = std::max(part.high, -part.low);
    if (most == 0) return std::numeric_limits<int64_t>::max();
    // Neither the positive nor the negative weights of an output have a larger sum of
    // magnitudes.
    const int64_t weights = c.part_bound / most;
    bound = std::max(bound, weights * (part.high + 128));
  }
  return bound;
}

std::string to_string(const Certificate& c) {
  return fmt::format("{}, {}, {}",
                     margin("accumulators", c.accumulator_bound, Certificate::s32_limit),
                     margin("parts", c.part_bound, Certificate::f32_limit),
                     margin("pairs", c.pair_bound, Certificate::s16_limit));
}

AccumulatorRange accumulator_range(std::span<const int8_t> weights, int64_t bias,
                                   const IntegerValue& x) {
  AccumulatorRange range{bias, bias};
  for (int64_t w : weights) {
    const int64_t a = w * (x.low - x.zero_point);
    const int64_t b = w * (x.high - x.zero_point);
    range.low += std::min(a, b);
    range.high += std::max(a, b);
  }
  return range;
}

Certificate certify_sums(int64_t magnitude, int64_t largest, int64_t most) {
  return {.part_bound = magnitude * most, .pair_bound = 2 * largest * 255};
}

Certificate certify(std::span<const int8_t> weights, int64_t n, int64_t k,
                    std::span<const int32_t> bias, const IntegerValue& x) {
  require<ArgumentError>(n >= 0 && k >= 0 && std::ssize(weights) == n * k &&
                             (bias.empty() || std::ssize(bias) == n),
                         "expected {} x {} weights and {} biases or none, got {} and {}", n, k,
                         n, weights.size(), bias.size());
  Certificate c;
  const Parts parts(x);
  for (int64_t i = 0; i < n; ++i) {
    const auto row = weights.subspan(static_cast<size_t>(i * k), static_cast<size_t>(k));
    const int64_t b = bias.empty() ? 0 : bias[static_cast<size_t>(i)];
    const AccumulatorRange products = products_range(row, whole_of(x));
    // Offset added to the products: bias and zero point.
    int64_t shift = b;
    for (int64_t w : row) shift -= w * x.zero_point;
    const AccumulatorRange whole{products.low + shift, products.high + shift};
    c.accumulator_bound =
        std::max({c.accumulator_bound, magnitude(products), magnitude(whole), std::abs(shift)});
    for (const Factors& part : parts) {
      c.part_bound = std::max(c.part_bound, magnitude(products_range(row, part)));
      c.pair_bound = std::max(c.pair_bound, pair_bound(row, part));
    }
  }
  return c;
}

}  // namespace qtape
