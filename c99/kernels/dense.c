/* y[r, c] of the sum over i of x[r, i] w[c, i], and offset[c]. */
static void @self(const @X *restrict x, @Y *restrict y, int32_t rows, int32_t terms,
                  int32_t outputs, const @W *restrict weights, int32_t row,
                  const @OFFSET *restrict offset, const @TO *restrict to) {
  @ACC sum[16];
  int32_t r, c, i;
  for (r = 0; r < rows; ++r, x += terms, y += outputs) {
    for (c = 0; c < outputs; c += 16) {
      const int32_t count = outputs - c < 16 ? outputs - c : 16;
      @DOT(x, weights + c * row, row, terms, count, sum);
      for (i = 0; i < count; ++i) y[c + i] = (@Y)@STORE(sum[i] + offset[c + i], to, c + i);
    }
  }
}
