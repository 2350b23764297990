/* y of the sums of windows by filters, and bias. The filters of a group have `terms` weights,
 * which take `row` bytes each; `values` holds a window, filled up with 0 to `padded` terms. */
static void @self(const @X *restrict x, @Y *restrict y, const @_window *restrict g,
                  int32_t zero_point, int32_t groups, int32_t outputs, int32_t terms,
                  int32_t padded, const @W *restrict weights, int32_t row,
                  const @OFFSET *restrict bias, @V *restrict values, const @TO *restrict to) {
  const int32_t channels = g->channels / groups;
  const int32_t filters = outputs / groups;
  @ACC sum[16];
  int32_t n, i, j, k, c, at;
  for (at = terms; at < padded; ++at) values[at] = 0;
  for (n = 0; n < g->images; ++n, x += g->height * g->width * g->channels) {
    for (i = 0; i < g->out_h; ++i) {
      for (j = 0; j < g->out_w; ++j) {
        for (k = 0; k < groups; ++k) {
          const int32_t end = (k + 1) * filters;
          @GATHER(x + k * channels, g, i * g->stride_h - g->top, j * g->stride_w - g->left,
                  channels, zero_point, values);
          for (c = k * filters; c < end; c += 16) {
            const int32_t count = end - c < 16 ? end - c : 16;
            @DOT(values, weights + c * row, row, padded & ~15, count, sum);
            for (at = 0; at < count; ++at) {
              y[c + at] = (@Y)@STORE(sum[at] + bias[c + at], to, c + at);
            }
          }
        }
        y += outputs;
      }
    }
  }
}
