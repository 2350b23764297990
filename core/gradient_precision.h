// What the products of gradients are computed in.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape {

/// The operands of the products that gradients of MatMul and convolutions consist of. Sums are
/// f32 in either case, and so are the gradients.
enum class GradientPrecision : uint8_t {
  F32,  ///< as they are
  BF16  ///< rounded to bf16, to the nearest even: for processors that multiply it
};
template <>
inline constexpr auto enum_names<GradientPrecision> =
    std::array<std::string_view, 2>{"F32", "BF16"};

}  // namespace qtape
