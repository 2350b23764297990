// Requantization: from a sum of products of codes to a code of another grid, as each kind of
// target computes it.
#pragma once

#include <cstdint>

#include "qtape/ops/core/enum_names.h"

namespace qtape {

/// How M acc is rounded to an integer, M = s_x s_w / s_y being the ratio of the grids.
enum class Profile : uint8_t {
  Float,   ///< half_even(float(acc) M): oneDNN, XNNPACK
  Single,  ///< (acc m + 2^(30 - sh)) >> (31 - sh) with M = m 2^(sh - 31): CMSIS-NN, one
           ///< rounding
  Double,  ///< saturating doubling high product, then a rounding shift: TFLite Micro
  Onnx     ///< half_even(float(acc) (s_x s_w) / s_y): QuantizeLinear behind DequantizeLinear
};
template <>
inline constexpr auto enum_names<Profile> =
    std::array<std::string_view, 4>{"Float", "Single", "Double", "Onnx"};

/// Two grids and their ratio M in the forms that profiles need.
struct Multiplier {
  float sum_scale = 1;     ///< s_x s_w, of the sums
  float output_scale = 1;  ///< s_y
  float ratio = 1;         ///< M
  int32_t mantissa = 0;    ///< m in [2^30, 2^31)
  int32_t exponent = 0;    ///< sh: M is m 2^(sh - 31) to within 2^-31 of itself
  bool operator==(const Multiplier&) const = default;
};

/// Exponents that every profile can shift by: M is in [2^-32, 2^15).
inline constexpr int32_t least_exponent = -31;
inline constexpr int32_t most_exponent = 15;
/// Sums must be closer to 0 than this.
inline constexpr int64_t largest_sum = int64_t{1} << 47;

/// The multiplier from the grid `sum_scale` to the grid `output_scale`. Throws ArgumentError,
/// naming both, unless both are positive and normal f32 and their ratio is within the limits.
Multiplier multiplier_of(double sum_scale, double output_scale);

/// round(M acc), limited to s32, as `profile` computes it; |acc| < largest_sum. With Double, as
/// on its targets, a sum that leaves s32 when shifted left is limited before the product.
int32_t requantize(int64_t acc, const Multiplier& multiplier, Profile profile);

}  // namespace qtape
