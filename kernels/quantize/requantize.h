// Requantization: from a sum of products of codes to a code of another grid, in the arithmetic
// of each target.
#pragma once

#include <cstdint>

#include "qtape/core/requantization.h"

namespace qtape::kernels {

/// Ratio M of two grids in the forms required by the requantizations.
struct Multiplier {
  float accumulator_scale = 1;  ///< s_x s_w, scale of the accumulators
  float output_scale = 1;       ///< s_y
  float ratio = 1;              ///< M, limited to f32
  int32_t mantissa = 0;         ///< m in [2^30, 2^31), or 0; of means, in [0, 2^31)
  int32_t exponent = 0;         ///< sh in [-31, 30]: M = m 2^(sh - 31), relative error <= 2^-31
  bool operator==(const Multiplier&) const = default;
};

/// Upper bound of |accumulator|, exclusive.
inline constexpr int64_t max_accumulator = int64_t{1} << 47;
/// Maximum number of products of 16-bit codes and 8-bit weights whose sum, with an s32 bias, is
/// within max_accumulator.
inline constexpr int64_t max_terms = int64_t{1} << 23;

/// True if both scales are positive normal f32 numbers, as multipliers require.
bool are_scales(double accumulator_scale, double output_scale);

/// Multiplier from the grid `accumulator_scale` to the grid `output_scale`. In Q31, a ratio
/// below 2^-32 is 0, as on the targets. A ratio of 2^30 or more is 2^30 (1 - 2^-31), which maps
/// every sum other than 0 to the end of the codes. Throws ArgumentError, naming both scales,
/// unless are_scales is true.
Multiplier multiplier_of(double accumulator_scale, double output_scale);

/// Multiplier of DoubleRounding for sums of `terms` codes that stand for their mean, as TFLite
/// Micro computes it: the mantissa of that from `sum_scale` to `output_scale`, shifted left as
/// far as 64 bits and the exponent allow, divided by `terms` and truncated, so from 2^29 on
/// unless the exponent is -31. Throws as multiplier_of.
Multiplier mean_multiplier_of(double sum_scale, double output_scale, int64_t terms);

/// Mantissa in 16 bits, used for S64 accumulators on the targets: (m + 2^15) >> 16, at most
/// 2^15 - 1.
int32_t reduced_mantissa(const Multiplier& multiplier);

/// Rounds M acc, clamped to s32, in the arithmetic of `requantization`; |acc| <
/// max_accumulator. No intermediate result overflows.
int32_t requantize(int64_t acc, const Multiplier& multiplier, Requantization requantization,
                   Accumulator accumulator = Accumulator::S32);

/// Addition of two codes on different grids, with the result on a third. In integers, as in
/// TFLite and CMSIS-NN: both codes are shifted left, scaled to twice the larger of their
/// scales, added, and scaled to s_y.
struct AddMultiplier {
  float a_scale = 1;
  float b_scale = 1;
  float output_scale = 1;
  float a_ratio = 1;        ///< s_a / s_y
  float b_ratio = 1;        ///< s_b / s_y
  int32_t left_shift = 20;  ///< 20, or 15 if codes are stored in 16 bits
  Multiplier a, b, output;  ///< to the common scale (a, b) and from it (output)
  bool operator==(const AddMultiplier&) const = default;
};

/// True if codes of these scales can be added: all are positive normal f32 numbers below 2^100,
/// and their ratios are below 2^64.
bool are_addable(double a_scale, double b_scale, double output_scale);
/// Multipliers of an addition. `of_16_bits`: the codes of a summand are stored in 16 bits,
/// regardless of their values. Throws ArgumentError, naming the scales, unless are_addable is
/// true.
AddMultiplier add_multiplier_of(double a_scale, double b_scale, double output_scale,
                                bool of_16_bits);

/// round((a s_a + b s_b) / s_y), clamped to s32. a and b are codes minus their zero points,
/// within +-65535. FloatMultiply: half_even(a (s_a / s_y) + b (s_b / s_y)). OnnxQdq:
/// half_even((a s_a + b s_b) / s_y). Each operation is rounded to f32.
int32_t requantize_add(int32_t a, int32_t b, const AddMultiplier& multiplier,
                       Requantization requantization);

}  // namespace qtape::kernels
