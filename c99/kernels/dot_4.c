/* sum[j] = sum over i of x[i] w[j, i]; a row of weights has `row` bytes of two each, the first in
 * the low bits. */
static void @self(const @X *x, const uint8_t *weights, int32_t row, int32_t terms, int32_t rows,
                  @ACC *sum) {
  int32_t i, j;
  for (j = 0; j < rows; ++j, weights += row) {
    @ACC even = 0, odd = 0;
    for (i = 0; i < terms / 2; ++i) {
      const int32_t w = weights[i];
      even += (@ACC)x[2 * i] * (((w & 15) ^ 8) - 8);
      odd += (@ACC)x[2 * i + 1] * (((w >> 4) ^ 8) - 8);
    }
    if (terms % 2 != 0) even += (@ACC)x[terms - 1] * (((weights[i] & 15) ^ 8) - 8);
    sum[j] = even + odd;
  }
}
