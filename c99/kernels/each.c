/* y of each x, minus its zero point; channels along the last axis. */
static void @self(const @X *x, @Y *y, int32_t rows, int32_t channels, int32_t zero_point,
                  const @TO *to) {
  int32_t r, c;
  for (r = 0; r < rows; ++r, x += channels, y += channels) {
    for (c = 0; c < channels; ++c) y[c] = (@Y)@STORE(x[c] - zero_point, to, c);
  }
}
