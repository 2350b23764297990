// Instructions that multiply codes exactly.
#pragma once

#include <cstdint>
#include <string_view>

// For sources that use them: QTAPE_HAS_CODE_PRODUCTS tells whether the compiler knows them.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define QTAPE_HAS_CODE_PRODUCTS 1
#else
#define QTAPE_HAS_CODE_PRODUCTS 0
#endif

namespace qtape::kernels {

/// What multiplies codes by weights of 8 bits and adds up in 32.
enum class CodeProducts : uint8_t {
  None,   ///< nothing that this processor has
  Words,  ///< AVX2: codes of s16, two terms at a time
  Bytes   ///< AVX-512 VNNI: codes of u8, four terms at a time
};

/// The best that this processor has, capped by isa().
CodeProducts code_products();
/// For reports: `avx512_vnni`.
std::string_view name_of(CodeProducts products);

}  // namespace qtape::kernels
