// How accumulators become codes of another grid: the arithmetic of each kind of target.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape {

/// How M acc is rounded to an integer, M = s_x s_w / s_y being the ratio of the grids.
/// SingleRounding and DoubleRounding differ for accumulators that targets take in s32; see
/// Accumulator for the others.
enum class Requantization : uint8_t {
  FloatMultiply,   ///< half_even(float(acc) M): oneDNN, XNNPACK
  SingleRounding,  ///< (acc m + 2^(30 - sh)) >> (31 - sh) with M = m 2^(sh - 31): CMSIS-NN, one
                   ///< rounding
  DoubleRounding,  ///< doubling high product, then a rounding shift: TFLite Micro
  OnnxQdq  ///< half_even(float(acc) (s_x s_w) / s_y): QuantizeLinear after DequantizeLinear
};
template <>
inline constexpr auto enum_names<Requantization> = std::array<std::string_view, 4>{
    "FloatMultiply", "SingleRounding", "DoubleRounding", "OnnxQdq"};

/// The type in which TFLite and CMSIS-NN accumulate, which follows from the type of the
/// activations and not from how large a sum is.
enum class Accumulator : uint8_t {
  S32,  ///< products of codes stored in 8 bits, and codes themselves
  S64   ///< products of codes stored in 16 bits, with biases of 64 bits. SingleRounding and
        ///< DoubleRounding are both (acc r + 2^(14 - sh)) >> (15 - sh), r being the mantissa in
        ///< 16 bits
};

}  // namespace qtape
