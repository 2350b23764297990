/* sum[j] = sum over i of x[i] w[j, i]; a row of weights has `row` bytes. Four rows at a time, so
 * that codes are read once for all of them; of the last ones some may be another one again. */
static void @self(const @X *x, const int8_t *weights, int32_t row, int32_t terms, int32_t rows,
                  @ACC *sum) {
  int32_t j;
  for (j = 0; j < rows; j += 4) {
    const int8_t *w = weights + j * row;
    const int8_t *w1 = j + 1 < rows ? w + row : w;
    const int8_t *w2 = j + 2 < rows ? w + 2 * row : w;
    const int8_t *w3 = j + 3 < rows ? w + 3 * row : w;
    @ACC s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int32_t i = 0;
@ARM    for (; i < terms; ++i) {
      const @X v = x[i];
      s0 += (@ACC)v * w[i];
      s1 += (@ACC)v * w1[i];
      s2 += (@ACC)v * w2[i];
      s3 += (@ACC)v * w3[i];
    }
    sum[j] = s0;
    sum[j + 1] = s1;
    sum[j + 2] = s2;
    sum[j + 3] = s3;
  }
}
