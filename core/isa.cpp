#include "qtape/core/isa.h"

#include <algorithm>
#include <cstdlib>

#include "qtape/core/error.h"
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace qtape {
namespace {

Isa detect() {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) return Isa::Avx512;
  if (__builtin_cpu_supports("avx2")) return Isa::Avx2;
#elif defined(__aarch64__) && defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? Isa::NeonDot : Isa::Neon;
#endif
  return Isa::Baseline;
}

}  // namespace

Isa isa() {
  static const Isa detected = detect();
  const char* cap = std::getenv("QTAPE_ISA");
  if (cap == nullptr || *cap == '\0') return detected;
  const auto limit = from_string<Isa>(cap);
  require<ArgumentError>(limit.has_value(),
                         "QTAPE_ISA: unknown value \"{}\"; expected one of {}", cap,
                         spellings<Isa>());
  return std::min(detected, *limit);
}

}  // namespace qtape
