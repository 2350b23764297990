// Requantization: from a sum of products of codes to a code of another grid, as each kind of
// target computes it.
#pragma once

#include <cstdint>

#include "qtape/core/requantization.h"

namespace qtape::kernels {

/// Two grids and their ratio M in the forms that requantizations need.
struct Multiplier {
  float accumulator_scale = 1;  ///< s_x s_w, of the accumulators
  float output_scale = 1;       ///< s_y
  float ratio = 1;              ///< M, limited to f32
  int32_t mantissa = 0;         ///< m in [2^30, 2^31), or 0
  int32_t exponent = 0;  ///< sh in [-31, 30]: M is m 2^(sh - 31) to within 2^-31 of itself
  bool operator==(const Multiplier&) const = default;
};

/// Accumulators must be closer to 0 than this.
inline constexpr int64_t max_accumulator = int64_t{1} << 47;
/// With a bias of s32, accumulators of so many products of 16-bit codes and 8-bit weights are.
inline constexpr int64_t max_terms = int64_t{1} << 23;

/// Whether both scales are positive and normal f32: what multipliers are made of.
bool are_scales(double accumulator_scale, double output_scale);

/// The multiplier from the grid `accumulator_scale` to the grid `output_scale`. In Q31 a ratio
/// below 2^-32 is 0, as on the targets, and one from 2^30 on is 2^30 (1 - 2^-31), which takes
/// every sum but 0 to the end of its codes. Throws ArgumentError, naming both, unless
/// are_scales.
Multiplier multiplier_of(double accumulator_scale, double output_scale);

/// m in 16 bits, as the S64 accumulators of targets are multiplied: (m + 2^15) >> 16, at most
/// 2^15 - 1.
int32_t reduced_mantissa(const Multiplier& multiplier);

/// round(M acc), limited to s32, as `requantization` computes it; |acc| < max_accumulator.
/// Nothing else is limited on the way, however large `acc` is.
int32_t requantize(int64_t acc, const Multiplier& multiplier, Requantization requantization,
                   Accumulator accumulator = Accumulator::S32);

/// From two codes of their own grids to their sum on a third. In integers, as TFLite and
/// CMSIS-NN: both codes are shifted left, brought to a scale of twice the larger one of theirs,
/// added, and brought to s_y.
struct AddMultiplier {
  float a_scale = 1;
  float b_scale = 1;
  float output_scale = 1;
  float a_ratio = 1;        ///< s_a / s_y
  float b_ratio = 1;        ///< s_b / s_y
  int32_t left_shift = 20;  ///< 20; 15 where codes are stored in 16 bits
  Multiplier a, b, output;  ///< to the common scale, and from it
  bool operator==(const AddMultiplier&) const = default;
};

/// Whether codes of such scales can be added: all positive and normal f32 below 2^100, and
/// apart by less than 2^64.
bool are_addable(double a_scale, double b_scale, double output_scale);
/// `of_16_bits`: whether a summand's codes are stored in 16 bits; what they are is no matter.
/// Throws ArgumentError, naming the scales, unless are_addable.
AddMultiplier add_multiplier_of(double a_scale, double b_scale, double output_scale,
                                bool of_16_bits);

/// round((a s_a + b s_b) / s_y), limited to s32; a and b are codes less their zero points,
/// within +-65535. FloatMultiply: half_even(a (s_a / s_y) + b (s_b / s_y)); OnnxQdq:
/// half_even((a s_a + b s_b) / s_y), each operation rounded to f32.
int32_t requantize_add(int32_t a, int32_t b, const AddMultiplier& multiplier,
                       Requantization requantization);

}  // namespace qtape::kernels
