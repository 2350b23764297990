/* y[c] of the sum over the elements of a window of x[c] w[c], and bias[c]: a filter for each
 * channel, weights [kernel_h, kernel_w, channels], rows of `row` bytes with @EACH in a byte. */
static void @self(const @X *restrict x, @Y *restrict y, const @_window *restrict g,
                  int32_t zero_point, const @W *restrict w, int32_t row,
                  const @OFFSET *restrict bias, const @TO *restrict to) {
  @ACC sum[16];
  int32_t n, i, j, p, q, c, k;
  for (n = 0; n < g->images; ++n, x += g->height * g->width * g->channels) {
    for (i = 0; i < g->out_h; ++i) {
      for (j = 0; j < g->out_w; ++j, y += g->channels) {
        for (c = 0; c < g->channels; c += 16) {
          const int32_t count = g->channels - c < 16 ? g->channels - c : 16;
          for (k = 0; k < 16; ++k) sum[k] = k < count ? bias[c + k] : 0;
          for (p = 0; p < g->kernel_h; ++p) {
            const int32_t at_h = i * g->stride_h - g->top + p * g->dilation_h;
            if (at_h < 0 || at_h >= g->height) continue;
            for (q = 0; q < g->kernel_w; ++q) {
              const int32_t at_w = j * g->stride_w - g->left + q * g->dilation_w;
              const @W *at = w + (p * g->kernel_w + q) * row + c / @EACH;
              if (at_w < 0 || at_w >= g->width) continue;
              const @X *from = x + (at_h * g->width + at_w) * g->channels + c;
@PRODUCTS            }
          }
          for (k = 0; k < count; ++k) y[c + k] = (@Y)@STORE(sum[k], to, c + k);
        }
      }
    }
  }
}
