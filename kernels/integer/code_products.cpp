#include "qtape/kernels/integer/code_products.h"

#include "qtape/core/isa.h"

namespace qtape::kernels {

CodeProducts code_products() {
#if QTAPE_HAS_CODE_PRODUCTS
  switch (isa()) {
#if defined(__x86_64__)
    case Isa::Avx512:
      if (__builtin_cpu_supports("avx512vnni")) return CodeProducts::Bytes;
      [[fallthrough]];
    case Isa::Avx2:
      return CodeProducts::Words;
#else
    case Isa::NeonDot:
      if (QTAPE_HAS_NEON_DOT) return CodeProducts::Bytes;
      [[fallthrough]];
    case Isa::Neon:
      return CodeProducts::Words;
#endif
    case Isa::Baseline:
      break;
  }
#endif
  return CodeProducts::None;
}

std::string_view name_of(CodeProducts products) {
#if defined(__aarch64__)
  constexpr std::string_view words = "neon";
  constexpr std::string_view bytes = "neon_dot";
#else
  constexpr std::string_view words = "avx2";
  constexpr std::string_view bytes = "avx512_vnni";
#endif
  switch (products) {
    case CodeProducts::Bytes:
      return bytes;
    case CodeProducts::Words:
      return words;
    case CodeProducts::None:
      break;
  }
  return "none";
}

}  // namespace qtape::kernels
