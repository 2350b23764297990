/* sum[j] = sum over i of x[i] w[j, i]; a row of weights has `row` bytes of four each, the first
 * in the lowest bits. */
static void @self(const @X *x, const uint8_t *weights, int32_t row, int32_t terms, int32_t rows,
                  @ACC *sum) {
  int32_t i, j;
  for (j = 0; j < rows; ++j, weights += row) {
    @ACC s = 0;
    for (i = 0; i < terms / 4; ++i) {
      const int32_t w = weights[i];
      s += (@ACC)x[4 * i] * (((w & 3) ^ 2) - 2);
      s += (@ACC)x[4 * i + 1] * ((((w >> 2) & 3) ^ 2) - 2);
      s += (@ACC)x[4 * i + 2] * ((((w >> 4) & 3) ^ 2) - 2);
      s += (@ACC)x[4 * i + 3] * (((w >> 6) ^ 2) - 2);
    }
    for (i *= 4; i < terms; ++i) {
      s += (@ACC)x[i] * ((((weights[i / 4] >> (2 * (i % 4))) & 3) ^ 2) - 2);
    }
    sum[j] = s;
  }
}
