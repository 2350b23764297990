/* y = the smallest i of the largest x along an axis of `extent` elements, `inner` apart. */
static void @self(const @X *restrict x, int32_t *restrict y, int32_t outer, int32_t extent,
                  int32_t inner) {
  int32_t i, k;
  for (; outer > 0; --outer, x += extent * inner) {
    for (k = 0; k < inner; ++k) {
      int32_t best = 0;
      for (i = 1; i < extent; ++i) {
        if (x[i * inner + k] > x[best * inner + k]) best = i;
      }
      *y++ = best;
    }
  }
}
