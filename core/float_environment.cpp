#include "qtape/core/float_environment.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace qtape {
namespace {

// Reading all of the environment takes about as long as a small kernel, these registers do not.
#if defined(__x86_64__)
bool is_default() {
  constexpr unsigned flags = 0x3f;  // of exceptions that occurred
  return (_mm_getcsr() & ~flags) == 0x1f80;
}
#elif defined(__aarch64__)
bool is_default() {
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control == 0;
}
#else
bool is_default() { return std::fegetround() == FE_TONEAREST; }
#endif

}  // namespace

FloatEnvironment::FloatEnvironment() noexcept : changed_(!is_default()), before_() {
  if (!changed_) return;
  std::fegetenv(&before_);
  std::fesetenv(FE_DFL_ENV);
}

FloatEnvironment::~FloatEnvironment() {
  if (changed_) std::fesetenv(&before_);
}

}  // namespace qtape
