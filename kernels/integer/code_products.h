// Processor instructions for exact products of codes.
#pragma once

#include <cstdint>
#include <string_view>

// For sources that use these instructions: QTAPE_HAS_CODE_PRODUCTS is defined as 1 if the
// compiler supports them, QTAPE_HAS_NEON_DOT likewise for SDOT, which not every ARM has.
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GNUC__)
#define QTAPE_HAS_CODE_PRODUCTS 1
#else
#define QTAPE_HAS_CODE_PRODUCTS 0
#endif
#if defined(__aarch64__) && (defined(__ARM_FEATURE_DOTPROD) || !defined(__clang__))
#define QTAPE_HAS_NEON_DOT 1
#else
#define QTAPE_HAS_NEON_DOT 0
#endif

namespace qtape::kernels {

/// Instructions that multiply codes by 8-bit weights and accumulate in 32 bits.
enum class CodeProducts : uint8_t {
  None,   ///< not available on this processor
  Words,  ///< AVX2, NEON: s16 codes, two terms at a time
  Bytes   ///< AVX-512 VNNI, SDOT of NEON: 8-bit codes, four terms at a time
};

/// Codes of CodeProducts::Bytes: u8 for AVX-512 VNNI, s8 for SDOT.
#if defined(__aarch64__)
using ByteCode = int8_t;
#else
using ByteCode = uint8_t;
#endif

/// True if oneDNN has fast int8 products on this kind of processor. On all but x86-64 it
/// computes them in plain loops.
#if defined(__x86_64__)
inline constexpr bool fast_int8_of_onednn = true;
#else
inline constexpr bool fast_int8_of_onednn = false;
#endif

/// Best instructions of this processor, capped by isa().
CodeProducts code_products();
/// Name for reports, such as `avx512_vnni`.
std::string_view name_of(CodeProducts products);

}  // namespace qtape::kernels
