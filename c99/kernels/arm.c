#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && !defined(__ARM_BIG_ENDIAN)
#include <arm_mve.h>
#define @^_HELIUM 1
#elif defined(__ARM_FEATURE_SIMD32) && !defined(__ARM_BIG_ENDIAN)
#include <arm_acle.h>
#define @^_DSP 1

/* Four bytes, wherever they lie. */
static inline int32_t @_word(const void *from) {
  int32_t word;
  memcpy(&word, from, 4);
  return word;
}
/* Bytes 1 and 3 of a word as signed halfwords. */
static inline int32_t @_odd_bytes(int32_t word) {
  return __sxtb16((int32_t)((uint32_t)word >> 8 | (uint32_t)word << 24));
}
/* The low halves of two words, and the high halves. */
static inline int32_t @_low_halves(int32_t a, int32_t b) {
  return (int32_t)(((uint32_t)a & 0xFFFFu) | (uint32_t)b << 16);
}
static inline int32_t @_high_halves(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a >> 16 | ((uint32_t)b & 0xFFFF0000u));
}
#endif
