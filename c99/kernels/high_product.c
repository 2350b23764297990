/* round(a b / 2^31), ties up. */
static inline int32_t @self(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}
