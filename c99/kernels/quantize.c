/* Codes of values; low and high limit what is rounded. Returns 1 where some x is NaN, else 0. */
static int32_t @self(const float *restrict x, @Y *restrict y, int32_t n, float scale, float before,
                     int32_t after, float low, float high) {
  int32_t i, bad = 0;
  (void)before;
  for (i = 0; i < n; ++i) {
    float v = @TERMS;
    uint32_t bits; /* which tell NaN whatever a compiler assumes of floats */
    memcpy(&bits, x + i, 4);
    bad |= (bits & 0x7fffffffu) > 0x7f800000u;
    v = v > low ? v : low;
    v = v < high ? v : high;
    y[i] = (@Y)((int32_t)@ROUND(v) + after);
  }
  return bad;
}
