// Precision of the matrix products in backward.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape {

/// Precision of the operands of the products in the gradients of MatMul and convolutions. Sums
/// and gradients are f32 in either case.
enum class GradientPrecision : uint8_t {
  F32,  ///< operands unchanged
  BF16  ///< operands rounded to bf16, ties to even; for processors with bf16 products
};
template <>
inline constexpr auto enum_names<GradientPrecision> =
    std::array<std::string_view, 2>{"F32", "BF16"};

}  // namespace qtape
