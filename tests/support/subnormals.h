// Subnormal numbers as 0, a setting of the processor.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qtape::test {

/// Makes subnormal numbers count as 0 where the processor has that setting for a thread;
/// fesetenv restores it.
inline void flush_subnormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

}  // namespace qtape::test
