#include "qtape/kernels/integer/code_products.h"

#include "qtape/core/isa.h"

namespace qtape::kernels {

CodeProducts code_products() {
#if QTAPE_HAS_CODE_PRODUCTS
  switch (isa()) {
    case Isa::Avx512:
      if (__builtin_cpu_supports("avx512vnni")) return CodeProducts::Bytes;
      [[fallthrough]];
    case Isa::Avx2:
      return CodeProducts::Words;
    case Isa::Baseline:
      break;
  }
#endif
  return CodeProducts::None;
}

std::string_view name_of(CodeProducts products) {
  switch (products) {
    case CodeProducts::Bytes:
      return "avx512_vnni";
    case CodeProducts::Words:
      return "avx2";
    case CodeProducts::None:
      break;
  }
  return "none";
}

}  // namespace qtape::kernels
