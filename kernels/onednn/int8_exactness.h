// Exactness of oneDNN's int8 products, by version, instruction set and trial.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape::kernels {

/// Condition under which the accumulators of oneDNN's products of u8 and s8 are exact, provided
/// they fit s32. The weakest condition comes first.
enum class Int8Exactness : uint8_t {
  Always,          ///< no condition: sums are s32 throughout
  Pairs,           ///< the sum of any two products of an accumulator fits s16
  PairsAnd24Bits,  ///< additionally, the sum of any of the products is below 2^24 in magnitude
  Never
};
}  // namespace qtape::kernels

namespace qtape {

template <>
inline constexpr auto enum_names<kernels::Int8Exactness> =
    std::array<std::string_view, 4>{"always", "pairs", "pairs_and_24_bits", "never"};

}  // namespace qtape

namespace qtape::kernels {

/// Exactness on this processor, as capped by DNNL_MAX_CPU_ISA or ONEDNN_MAX_CPU_ISA: the weaker
/// of the known exactness of oneDNN's version and instruction set and the result of a trial.
/// The first call runs the trial, which takes a few milliseconds.
Int8Exactness int8_exactness();

/// Result of the trial alone: small products with known accumulators, at the bounds of each
/// condition and beyond.
Int8Exactness tried_int8_exactness();

/// Instruction set of oneDNN's int8 products for reports, such as "avx512_core_vnni". "this
/// processor" for an unlisted one.
std::string_view int8_isa();

}  // namespace qtape::kernels
