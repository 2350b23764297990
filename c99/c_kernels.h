// Whose kernels exported C calls.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape {

/// Whose kernels a C program calls.
enum class CKernels : uint8_t {
  Portable,  ///< its own
  CmsisNn    ///< those of CMSIS-NN for products, max-pooling and sums of s8 codes
};
template <>
inline constexpr auto enum_names<CKernels> =
    std::array<std::string_view, 2>{"portable", "cmsis-nn"};

}  // namespace qtape
