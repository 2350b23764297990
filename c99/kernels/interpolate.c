/* y of sums of the four x around each position, each times its nearness; `at` is for rows, then
 * for columns. */
static void @self(const @X *restrict x, @Y *restrict y, const @_positions *restrict at,
                  int32_t images, int32_t channels, int32_t zero_point, const @TO *restrict to) {
  const @_positions *h = at;
  const @_positions *w = at + 1;
  const int32_t line = w->in * channels;
  int32_t n, i, j, c;
  for (n = 0; n < images; ++n, x += h->in * line) {
    for (i = 0; i < h->out; ++i) {
      const int32_t row = @PLACE(i, h);
      const int32_t below = row % h->divisor;
      const @X *top = x + row / h->divisor * line;
      const @X *bottom = below > 0 ? top + line : top;
      for (j = 0; j < w->out; ++j, y += channels) {
        const int32_t column = @PLACE(j, w);
        const int32_t behind = column % w->divisor;
        const int32_t left = column / w->divisor * channels;
        const int32_t right = behind > 0 ? left + channels : left;
        for (c = 0; c < channels; ++c) {
          const @ACC above = ((@ACC)top[left + c] - zero_point) * (w->divisor - behind) +
                             ((@ACC)top[right + c] - zero_point) * behind;
          const @ACC under = ((@ACC)bottom[left + c] - zero_point) * (w->divisor - behind) +
                             ((@ACC)bottom[right + c] - zero_point) * behind;
          y[c] = (@Y)@STORE(above * (h->divisor - below) + under * below, to, c);
        }
      }
    }
  }
}
