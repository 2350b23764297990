#include "qtape/kernels/quantize/requantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "qtape/core/error.h"

namespace qtape::kernels {
namespace {

// Range of exponents that every requantization can shift by.
constexpr int32_t min_exponent = -31;
constexpr int32_t max_exponent = 30;
constexpr int64_t s32_min = std::numeric_limits<int32_t>::min();
constexpr int64_t s32_max = std::numeric_limits<int32_t>::max();

int32_t saturated(int64_t v) { return static_cast<int32_t>(std::clamp(v, s32_min, s32_max)); }

/// Rounds half to even, clamped before conversion to an integer. The sum comes from codes, so
/// it is never NaN.
int32_t rounded(float v) {
  const double limited =
      std::clamp(double{v}, static_cast<double>(s32_min), static_cast<double>(s32_max));
  const double floor = std::floor(limited);
  const double part = limited - floor;
  const auto low = static_cast<int64_t>(floor);
  const bool up = part > 0.5 || (part == 0.5 && (low & 1) != 0);
  return static_cast<int32_t>(up ? low + 1 : low);
}

/// (acc m + 2^(shift - 1)) >> shift without a wider type: acc is split in two parts, so that
/// each product fits. 1 <= shift <= 62.
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

/// floor(acc m 2^(exponent - 31) + 1/2).
int64_t scaled(int64_t acc, int32_t mantissa, int32_t exponent) {
  // For M >= 2^15, a sum outside s32 has a result outside s32 as well.
  const int64_t fitting = exponent > 15 ? saturated(acc) : acc;
  return multiply_shift(fitting, mantissa, 31 - exponent);
}

/// v / 2^shift, ties away from zero.
int64_t rounding_shift(int64_t v, int32_t shift) {
  const int64_t mask = (int64_t{1} << shift) - 1;
  const int64_t threshold = (mask >> 1) + (v < 0 ? 1 : 0);
  return (v >> shift) + ((v & mask) > threshold ? 1 : 0);
}

/// High half of 2 acc 2^left m, ties up, as in gemmlowp and ARM's VQRDMULH, followed by a right
/// shift.
int64_t twice(int64_t acc, const Multiplier& m) {
  const int32_t left = std::max(m.exponent, 0);
  const int32_t right = std::max(-m.exponent, 0);
  return rounding_shift(scaled(acc, m.mantissa, left), right);
}

/// floor(acc r 2^(exponent - 15) + 1/2), with |acc r| < 2^62. Targets have exponents up to 7.
int64_t reduced(int64_t acc, const Multiplier& m) {
  const int64_t product = acc * reduced_mantissa(m);
  const int32_t shift = 15 - m.exponent;
  if (shift > 0) return (product + (int64_t{1} << (shift - 1))) >> shift;
  return int64_t{saturated(product)} * (int64_t{1} << -shift);
}

/// Scalar arithmetic of one requantization: `code` returns round(M acc), clamped to s32; `sum`
/// returns the rounded sum of two codes (see requantize and requantize_add).
template <class Each>
struct Scalar;

template <>
struct Scalar<requantization::FloatMultiply> {
  static int32_t code(int64_t acc, const Multiplier& m, Accumulator) {
    return rounded(static_cast<float>(acc) * m.ratio);
  }
  static int32_t sum(int32_t a, int32_t b, const AddMultiplier& m) {
    return rounded(static_cast<float>(a) * m.a_ratio + static_cast<float>(b) * m.b_ratio);
  }
};

template <>
struct Scalar<requantization::OnnxQdq> {
  static int32_t code(int64_t acc, const Multiplier& m, Accumulator) {
    return rounded(static_cast<float>(acc) * m.accumulator_scale / m.output_scale);
  }
  static int32_t sum(int32_t a, int32_t b, const AddMultiplier& m) {
    const float total = static_cast<float>(a) * m.a_scale + static_cast<float>(b) * m.b_scale;
    return rounded(total / m.output_scale);
  }
};

/// Addition in integers: both summands are shifted left and requantized to twice the larger
/// scale, added, and requantized.
template <class Each>
struct IntegerSum {
  static int32_t sum(int32_t a, int32_t b, const AddMultiplier& m) {
    const int64_t unit = int64_t{1} << m.left_shift;
    const auto code = [](int64_t acc, const Multiplier& by) {
      return Scalar<Each>::code(acc, by, Accumulator::S32);
    };
    return code(int64_t{code(a * unit, m.a)} + code(b * unit, m.b), m.output);
  }
};

template <>
struct Scalar<requantization::SingleRounding> : IntegerSum<requantization::SingleRounding> {
  static int32_t code(int64_t acc, const Multiplier& m, Accumulator accumulator) {
    const bool of_16_bits = accumulator == Accumulator::S64;
    return saturated(of_16_bits ? reduced(acc, m) : scaled(acc, m.mantissa, m.exponent));
  }
};

template <>
struct Scalar<requantization::DoubleRounding> : IntegerSum<requantization::DoubleRounding> {
  static int32_t code(int64_t acc, const Multiplier& m, Accumulator accumulator) {
    return saturated(accumulator == Accumulator::S64 ? reduced(acc, m) : twice(acc, m));
  }
};

bool is_normal_f32(double v) {
  const auto narrow = static_cast<float>(v);
  return v > 0 && std::isnormal(narrow);
}

float limited_f32(double v) {
  return static_cast<float>(std::min(v, double{std::numeric_limits<float>::max()}));
}

}  // namespace

bool are_scales(double accumulator_scale, double output_scale) {
  return is_normal_f32(accumulator_scale) && is_normal_f32(output_scale);
}

Multiplier multiplier_of(double accumulator_scale, double output_scale) {
  require<ArgumentError>(
      are_scales(accumulator_scale, output_scale),
      "scales must be positive and normal f32, got {} for the accumulators and {} "
      "for the output",
      accumulator_scale, output_scale);
  Multiplier m{.accumulator_scale = static_cast<float>(accumulator_scale),
               .output_scale = static_cast<float>(output_scale),
               .ratio = limited_f32(accumulator_scale / output_scale)};
  const double fraction = std::frexp(accumulator_scale / output_scale, &m.exponent);
  auto mantissa = static_cast<int64_t>(std::round(std::ldexp(fraction, 31)));
  if (mantissa > s32_max) {
    mantissa /= 2;
    ++m.exponent;
  }
  m.mantissa = static_cast<int32_t>(mantissa);
  if (m.exponent < min_exponent) m.mantissa = m.exponent = 0;
  if (m.exponent > max_exponent) {
    m.mantissa = static_cast<int32_t>(s32_max);
    m.exponent = max_exponent;
  }
  return m;
}

Multiplier mean_multiplier_of(double sum_scale, double output_scale, int64_t terms) {
  const Multiplier sum = multiplier_of(sum_scale, output_scale);
  const int32_t width = static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(terms))) - 1;
  const int32_t shift = std::min({width, 32, sum.exponent - min_exponent});
  const double scale = sum_scale / static_cast<double>(terms);
  return {.accumulator_scale = static_cast<float>(scale),
          .output_scale = sum.output_scale,
          .ratio = limited_f32(scale / output_scale),
          .mantissa = static_cast<int32_t>((int64_t{sum.mantissa} << shift) / terms),
          .exponent = sum.exponent - shift};
}

int32_t reduced_mantissa(const Multiplier& m) {
  constexpr int32_t largest = (int32_t{1} << 15) - 1;
  return m.mantissa < largest << 16 ? (m.mantissa + (1 << 15)) >> 16 : largest;
}

int32_t requantize(int64_t acc, const Multiplier& m, Requantization requantization,
                   Accumulator accumulator) {
  return requantization::dispatch(
      requantization, [&]<class Each>() { return Scalar<Each>::code(acc, m, accumulator); });
}

bool are_addable(double a_scale, double b_scale, double output_scale) {
  const auto [smallest, largest] = std::minmax({a_scale, b_scale, output_scale});
  // Ensures that no product or quotient with a code overflows f32.
  return is_normal_f32(a_scale) && is_normal_f32(b_scale) && is_normal_f32(output_scale) &&
         largest < 0x1p100 && largest / smallest < 0x1p64;
}

AddMultiplier add_multiplier_of(double a_scale, double b_scale, double output_scale,
                                bool of_16_bits) {
  require<ArgumentError>(
      are_addable(a_scale, b_scale, output_scale),
      "scales must be positive, normal f32 below 2^100 and differ by less than a factor of "
      "2^64, got {} and {} for the summands and {} for the output",
      a_scale, b_scale, output_scale);
  const int32_t left_shift = of_16_bits ? 15 : 20;
  const double twice_larger = 2 * std::max(a_scale, b_scale);
  // Ratios to 1, so that no scale overflows f32.
  return {
      .a_scale = static_cast<float>(a_scale),
      .b_scale = static_cast<float>(b_scale),
      .output_scale = static_cast<float>(output_scale),
      .a_ratio = limited_f32(a_scale / output_scale),
      .b_ratio = limited_f32(b_scale / output_scale),
      .left_shift = left_shift,
      .a = multiplier_of(a_scale / twice_larger, 1),
      .b = multiplier_of(b_scale / twice_larger, 1),
      .output = multiplier_of(
          std::clamp(twice_larger / std::ldexp(output_scale, left_shift), 0x1p-120, 0x1p120),
          1)};
}

int32_t requantize_add(int32_t a, int32_t b, const AddMultiplier& m,
                       Requantization requantization) {
  return requantization::dispatch(requantization,
                                  [&]<class Each>() { return Scalar<Each>::sum(a, b, m); });
}

}  // namespace qtape::kernels
