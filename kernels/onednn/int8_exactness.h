// How far oneDNN's int8 products can be trusted, by version, instruction set and trial.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape::kernels {

/// When accumulators of oneDNN's products of u8 and s8 that fit s32 are exact, weakest
/// condition first.
enum class Int8Exactness : uint8_t {
  Always,          ///< summed in s32 throughout
  Pairs,           ///< while no two products of a sum leave s16 together
  PairsAnd24Bits,  ///< while, besides, no sum of any of the products is 2^24 or further from 0
  Never
};
}  // namespace qtape::kernels

namespace qtape {

template <>
inline constexpr auto enum_names<kernels::Int8Exactness> =
    std::array<std::string_view, 4>{"always", "pairs", "pairs_and_24_bits", "never"};

}  // namespace qtape

namespace qtape::kernels {

/// What holds on this processor, as capped by DNNL_MAX_CPU_ISA or ONEDNN_MAX_CPU_ISA: what
/// oneDNN's version and instruction set are known to give, or less where a trial finds less.
/// The first call makes the trial, in a few milliseconds.
Int8Exactness int8_exactness();

/// The trial alone: small products with known accumulators, at the bounds of each condition and
/// beyond.
Int8Exactness tried_int8_exactness();

/// The instruction set of oneDNN's int8 products, for reports: "avx512_core_vnni". "unknown"
/// for one without a name here.
std::string_view int8_isa();

}  // namespace qtape::kernels
