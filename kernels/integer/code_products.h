// Processor instructions for exact products of codes.
#pragma once

#include <cstdint>
#include <string_view>

// For sources that use these instructions: QTAPE_HAS_CODE_PRODUCTS is defined as 1 if the
// compiler supports them.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define QTAPE_HAS_CODE_PRODUCTS 1
#else
#define QTAPE_HAS_CODE_PRODUCTS 0
#endif

namespace qtape::kernels {

/// Instructions that multiply codes by 8-bit weights and accumulate in 32 bits.
enum class CodeProducts : uint8_t {
  None,   ///< not available on this processor
  Words,  ///< AVX2: s16 codes, two terms at a time
  Bytes   ///< AVX-512 VNNI: u8 codes, four terms at a time
};

/// Best instructions of this processor, capped by isa().
CodeProducts code_products();
/// Name for reports, such as `avx512_vnni`.
std::string_view name_of(CodeProducts products);

}  // namespace qtape::kernels
