// Kernel libraries that exported C can call.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape {

/// Kernel library that a C program calls.
enum class CKernels : uint8_t {
  Portable,  ///< kernels of its own
  CmsisNn    ///< CMSIS-NN kernels for products, max-pooling and sums of s8 codes
};
template <>
inline constexpr auto enum_names<CKernels> =
    std::array<std::string_view, 2>{"portable", "cmsis-nn"};

}  // namespace qtape
