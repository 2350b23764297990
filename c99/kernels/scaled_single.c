/* round(sum multiplier 2^-shift), ties up; |sum| <= 2^31, 1 <= shift <= 62. */
static inline int64_t @self(int64_t sum, int32_t multiplier, int32_t shift) {
  return (sum * multiplier + ((int64_t)1 << (shift - 1))) >> shift;
}
