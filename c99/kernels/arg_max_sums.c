/* y = the smallest i of the largest value x scale along an axis of `extent` elements, `inner`
 * apart; `count` scales along the last axis. */
static void @self(const @X *restrict x, int32_t *restrict y, int32_t outer, int32_t extent,
                  int32_t inner, const float *scale, int32_t count) {
  const int32_t n = outer * extent * inner;
  int32_t at, i, k;
  for (at = 0; at < n; at += extent * inner) {
    for (k = at; k < at + inner; ++k) {
      float most = (float)x[k] * scale[k % count];
      int32_t best = 0;
      for (i = 1; i < extent; ++i) {
        const float value = (float)x[k + i * inner] * scale[(k + i * inner) % count];
        if (value > most) {
          best = i;
          most = value;
        }
      }
      *y++ = best;
    }
  }
}
