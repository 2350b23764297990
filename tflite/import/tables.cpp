#include "qtape/tflite/import/tables.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/integer/core/fixed_point.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape::tflite {

using namespace kernels;
namespace {

constexpr int64_t one = 1;

/// Calls `value(q - zero point of x)` for each code of x, and limits the results to y's codes.
template <class Value>
CodeTable table_of(const CodeGrid& x, const CodeGrid& y, const Value& value) {
  CodeTable table;
  for (int64_t q = -128; q < 128; ++q) {
    table.push_back(
        static_cast<int8_t>(std::clamp<int64_t>(value(q - x.zero_point), y.low, y.high)));
  }
  return table;
}

float f32(double v) { return static_cast<float>(v); }

int64_t scaled(int64_t v, const Multiplier& by) {
  return requantize(v, by, Requantization::DoubleRounding);
}

/// A multiplier in 16 bits.
struct ShortMultiplier {
  int64_t mantissa;
  int exponent;

  explicit ShortMultiplier(double factor) {
    const Multiplier wide = multiplier_of(factor, 1);
    mantissa = reduced_mantissa(wide);
    exponent = wide.exponent;
  }
};

int64_t limited_s16(int64_t v) { return std::clamp<int64_t>(v, -32768, 32767); }

/// Returns a b / 2^15 rounded to nearest, halves upwards, in 16 bits.
int64_t short_product(int64_t a, int64_t b) { return limited_s16((a * b + (one << 14)) >> 15); }

/// The relu6(v + 3) / 6 of `u` = v 2^7 codes, in Q0.15.
int64_t hard_sigmoid(int64_t u, const ShortMultiplier& by) {
  int64_t r = u;
  if (by.exponent > 0) r = limited_s16(r << (by.exponent - 1));
  r = short_product(r, by.mantissa);
  if (by.exponent > 0) r = limited_s16(r * 2);
  if (by.exponent < 0) r = nearest_shift(r, -by.exponent);
  return (r + 32768) >> 1;
}

/// Codes as arguments of 4 integer bits, which a function of `fixed` takes.
template <class Fixed>
CodeTable saturating_table(const CodeGrid& x, const CodeGrid& y, const Fixed& fixed) {
  const double factor = x.scale * 0x1p27;
  int exponent = 0;
  (void)std::frexp(factor, &exponent);
  check(exponent >= -31, "the input has the scale {}, expected at least 2^-58", x.scale);
  const auto reach = static_cast<int64_t>(std::floor(15 * std::ldexp(0x1p27, -exponent)));
  const Multiplier by = multiplier_of(factor, 1);
  return table_of(x, y, [&](int64_t v) -> int64_t {
    if (v <= -reach) return -128;
    if (v >= reach) return 127;
    return fixed(scaled(v, by));
  });
}

void check_grid(const CodeGrid& y, double scale, int32_t zero_point) {
  check(y.scale == scale && y.zero_point == zero_point,
        "the output has the scale {} and zero point {}, expected {} and {}", y.scale,
        y.zero_point, scale, zero_point);
}

/// Returns (1 + e) / 2 in Q0.31 of an exponential e.
int64_t half_sum(int64_t exponential) { return (exponential + (one << 31)) / 2; }

CodeTable relu_table(const CodeGrid& x, const CodeGrid& y) {
  const Multiplier by = multiplier_of(f32(x.scale) / f32(y.scale), 1);
  CodeGrid limits = y;
  limits.low = std::max(y.low, y.zero_point);
  return table_of(x, limits, [&](int64_t v) { return scaled(v, by) + y.zero_point; });
}

CodeTable leaky_relu_table(const CodeGrid& x, const CodeGrid& y, float alpha) {
  check(std::isfinite(f32(x.scale) * alpha / f32(y.scale)),
        "alpha is {}, expected a finite slope", alpha);
  const Multiplier by = multiplier_of(f32(x.scale) / f32(y.scale), 1);
  const float slope = f32(x.scale) * alpha / f32(y.scale);
  const bool flat = std::fabs(slope) < std::numeric_limits<float>::min();
  const Multiplier below = flat ? Multiplier{} : multiplier_of(std::fabs(slope), 1);
  return table_of(x, y, [&](int64_t v) {
    if (v >= 0) return scaled(v, by) + y.zero_point;
    const int64_t less = flat ? 0 : scaled(v, below);
    return y.zero_point + (slope < 0 ? -less : less);
  });
}

CodeTable hard_swish_table(const CodeGrid& x, const CodeGrid& y) {
  const float fine = f32(x.scale) / 128;
  const ShortMultiplier output(fine / f32(y.scale));
  const ShortMultiplier relu(fine / (3.0f / 32768));
  check(output.exponent <= 0 && output.exponent > -16 && relu.exponent > -16,
        "has the scales {} and {}, expected an output of 1/128 to 512 times the input of at "
        "least 2^-22",
        x.scale, y.scale);
  return table_of(x, y, [&](int64_t v) {
    const int64_t u = v * 128;
    const int64_t product = hard_sigmoid(u, relu) * short_product(u, output.mantissa);
    const int64_t whole = product / 32768;  // towards 0
    const int64_t rounded =
        output.exponent == 0 ? whole : nearest_shift(whole, -output.exponent);
    return rounded + y.zero_point;
  });
}

CodeTable logistic_table(const CodeGrid& x, const CodeGrid& y) {
  check_grid(y, 0x1p-8, -128);
  return saturating_table(x, y, [](int64_t f) {
    constexpr int64_t all_ones = (one << 31) - 1;
    int64_t p = one << 30;
    if (f != 0) {
      const int64_t above = 2 * fixed_reciprocal(half_sum(fixed_exp(-std::abs(f), 4)));
      p = std::min(above, all_ones);
      if (f < 0) p = all_ones - p;
    }
    return nearest_shift(p, 23) - 128;
  });
}

CodeTable tanh_table(const CodeGrid& x, const CodeGrid& y) {
  check_grid(y, 0x1p-7, 0);
  return saturating_table(x, y, [](int64_t f) {
    constexpr int64_t all_ones = (one << 31) - 1;
    if (f == 0) return int64_t{0};
    // The argument of the exponential is twice as large: its bits have one integer bit more.
    const int64_t quotient = fixed_reciprocal(half_sum(fixed_exp(-std::abs(f), 5)));
    const int64_t t = std::min(4 * (quotient - (one << 29)), all_ones);
    return nearest_shift(f < 0 ? -t : t, 24);
  });
}

}  // namespace

CodeTable function_table(const FunctionLayer& layer, const CodeGrid& x, const CodeGrid& y) {
  switch (layer.function) {
    case Builtin::Relu:
      return relu_table(x, y);
    case Builtin::LeakyRelu:
      return leaky_relu_table(x, y, layer.alpha);
    case Builtin::HardSwish:
      return hard_swish_table(x, y);
    case Builtin::Logistic:
      return logistic_table(x, y);
    default:
      return tanh_table(x, y);
  }
}

}  // namespace qtape::tflite
