#include "qtape/deploy/requantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/ops/core/error.h"

namespace qtape {
namespace {

constexpr int64_t s32_min = std::numeric_limits<int32_t>::min();
constexpr int64_t s32_max = std::numeric_limits<int32_t>::max();

int32_t saturated(int64_t v) { return static_cast<int32_t>(std::clamp(v, s32_min, s32_max)); }

/// Half to even, limited before it becomes an integer. The sum came from codes: never NaN.
int32_t rounded(float v) {
  const double limited =
      std::clamp(double{v}, static_cast<double>(s32_min), static_cast<double>(s32_max));
  const double low = std::floor(limited);
  const double part = limited - low;
  const bool up = part > 0.5 || (part == 0.5 && std::fmod(low, 2.0) != 0.0);
  return static_cast<int32_t>(up ? low + 1 : low);
}

/// (acc m + 2^(shift - 1)) >> shift without a wider type: acc in two parts, so that each
/// product fits. 1 <= shift <= 62.
int64_t multiply_shift(int64_t acc, int32_t mantissa, int32_t shift) {
  // acc m = high 2^31 + low, 0 <= low < 2^31.
  const int64_t upper = (acc >> 31) * mantissa;
  const int64_t product = (acc & s32_max) * mantissa;
  const int64_t high = upper + (product >> 31);
  const int64_t low = product & s32_max;
  if (shift <= 31) {
    const int64_t half = int64_t{1} << (shift - 1);
    return (high << (31 - shift)) + ((low + half) >> shift);
  }
  const int64_t half = int64_t{1} << (shift - 32);
  return (high + half) >> (shift - 31);
}

int32_t single(int64_t acc, const Multiplier& m) {
  return saturated(multiply_shift(acc, m.mantissa, 31 - m.exponent));
}

/// The high half of 2 a m, rounded to nearest, ties up: gemmlowp, and ARM's VQRDMULH.
int64_t doubling_high(int64_t a, int32_t mantissa) {
  const int64_t product = a * mantissa;
  const int64_t nudge = product >= 0 ? int64_t{1} << 30 : 1 - (int64_t{1} << 30);
  return (product + nudge) / (int64_t{1} << 31);
}

/// v / 2^shift, ties away from zero.
int64_t rounding_shift(int64_t v, int32_t shift) {
  const int64_t mask = (int64_t{1} << shift) - 1;
  const int64_t threshold = (mask >> 1) + (v < 0 ? 1 : 0);
  return (v >> shift) + ((v & mask) > threshold ? 1 : 0);
}

int32_t twice(int64_t acc, const Multiplier& m) {
  const int32_t left = std::max(m.exponent, 0);
  const int32_t right = std::max(-m.exponent, 0);
  const int64_t limited = saturated(acc * (int64_t{1} << left));
  return saturated(rounding_shift(doubling_high(limited, m.mantissa), right));
}

bool is_normal_f32(double v) {
  const auto narrow = static_cast<float>(v);
  return v > 0 && std::isnormal(narrow);
}

}  // namespace

Multiplier multiplier_of(double sum_scale, double output_scale) {
  require<ArgumentError>(is_normal_f32(sum_scale) && is_normal_f32(output_scale),
                         "scales must be positive and normal f32, got {} for the sums and {} "
                         "for the output",
                         sum_scale, output_scale);
  int exponent = 0;
  const double fraction = std::frexp(sum_scale / output_scale, &exponent);
  auto mantissa = static_cast<int64_t>(std::nearbyint(std::ldexp(fraction, 31)));
  if (mantissa > s32_max) {
    mantissa /= 2;
    ++exponent;
  }
  require<ArgumentError>(exponent >= least_exponent && exponent <= most_exponent,
                         "the ratio of the scales {} and {} must be in [2^{}, 2^{}), got {}",
                         sum_scale, output_scale, least_exponent - 1, most_exponent,
                         sum_scale / output_scale);
  return {.sum_scale = static_cast<float>(sum_scale),
          .output_scale = static_cast<float>(output_scale),
          .ratio = static_cast<float>(sum_scale / output_scale),
          .mantissa = static_cast<int32_t>(mantissa),
          .exponent = exponent};
}

int32_t requantize(int64_t acc, const Multiplier& m, Profile profile) {
  switch (profile) {
    case Profile::Single:
      return single(acc, m);
    case Profile::Double:
      return twice(acc, m);
    case Profile::Onnx:
      return rounded(static_cast<float>(acc) * m.sum_scale / m.output_scale);
    case Profile::Float:
      break;
  }
  return rounded(static_cast<float>(acc) * m.ratio);
}

}  // namespace qtape
