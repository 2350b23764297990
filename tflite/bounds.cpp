#include "qtape/tflite/bounds.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape::tflite {
namespace {

using kernels::multiplier_of;

/// Checks integers of at most `bound` times a factor, whose multiplier has this exponent.
void check_shifted(int64_t bound, double factor, int exponent) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  check(bound <= most, "its sums reach {}, expected at most 2^31 - 1", bound);
  check(bound <= most >> std::max(0, exponent),
        "its sums reach {} times the factor {}, expected at most 2^31 - 1", bound, factor);
}

void check_scales(double s, double y_scale) {
  check(kernels::are_scales(s, y_scale), "has the scales {} and {}, expected normal numbers", s,
        y_scale);
}

/// Checks integers of at most `bound` times s / y_scale.
void check_scaled(int64_t bound, double s, double y_scale) {
  check_scales(s, y_scale);
  check_shifted(bound, s / y_scale, multiplier_of(s, y_scale).exponent);
}

/// Checks sums of 64 bits of at most `bound`, whose product with s / y_scale has 32 bits.
void check_wide(int64_t bound, double s, double y_scale) {
  check_scales(s, y_scale);
  constexpr double max_factor = 128;
  constexpr double most = std::numeric_limits<int32_t>::max();
  const double factor = s / y_scale;
  check(multiplier_of(s, y_scale).exponent < 8,
        "its sums are multiplied by {}, expected less than {}", factor, max_factor);
  // The multiplier has 15 bits.
  check(static_cast<double>(bound) * factor * (1 + 0x1p-14) < most,
        "its sums reach {} times the factor {}, expected less than 2^31 - 1", bound, factor);
}

}  // namespace

void check_requantized(const IntegerValue& x, double y_scale) {
  const int64_t bound = x.is_codes() ? x.limit() : std::max(std::abs(x.low), std::abs(x.high));
  const bool wide = x.is_accumulators() && x.accumulator == Accumulator::S64;
  for (const double s : x.scales) (wide ? check_wide : check_scaled)(bound, s, y_scale);
}

void check_product(const IntegerValue& a, const IntegerValue& b, double y_scale) {
  check_scaled(a.limit() * b.limit(), a.scales[0] * b.scales[0], y_scale);
}

void check_sum(const IntegerValue& a, const IntegerValue& b, double y_scale) {
  const double larger = std::max(a.scales[0], b.scales[0]);
  const int shift = a.type.dtype == DType::S16 ? 15 : 20;
  check(2 * larger < std::ldexp(y_scale, shift),
        "adds codes of the scale {} to a scale of {}, expected more than 2^-{} of it", larger,
        y_scale, shift - 1);
}

void check_mean(int64_t n, const IntegerValue& x, double y_scale) {
  check(n > 0, "is a mean of no codes");
  const double s = x.scales[0];
  check(kernels::are_scales(s, y_scale) && s < 0x1p29 * y_scale,
        "has the scales {} and {}, expected normal numbers with a quotient below 2^29", s,
        y_scale);
  check_shifted(n * x.limit(), s / static_cast<double>(n) / y_scale,
                kernels::mean_multiplier_of(s, y_scale, n).exponent);
}

void check_softmax(const IntegerValue& x) {
  check(x.type.dtype == DType::S8, "has codes of {}, expected s8",
        to_string_view(x.type.dtype));
  constexpr int64_t most = 511;
  check(x.type.shape.rank() > 0 && x.type.shape[-1] <= most,
        "has rows of {}, expected up to {} codes along the last axis", to_string(x.type.shape),
        most);
}

}  // namespace qtape::tflite
