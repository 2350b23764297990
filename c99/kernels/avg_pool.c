/* y of the sums of windows, by channel, each taken `common` by its divisor times: that is `all`,
 * or where it is 0 the number of elements within the image. */
static void @self(const @X *restrict x, @Y *restrict y, const @_window *restrict g,
                  int32_t zero_point, int32_t common, int32_t all, const @TO *restrict to) {
  @ACC sum[16];
  int32_t n, i, j, p, q, c, k;
  for (n = 0; n < g->images; ++n, x += g->height * g->width * g->channels) {
    for (i = 0; i < g->out_h; ++i) {
      for (j = 0; j < g->out_w; ++j, y += g->channels) {
        for (c = 0; c < g->channels; c += 16) {
          const int32_t count = g->channels - c < 16 ? g->channels - c : 16;
          int32_t inside = 0;
          for (k = 0; k < count; ++k) sum[k] = 0;
          for (p = 0; p < g->kernel_h; ++p) {
            const int32_t row = i * g->stride_h - g->top + p * g->dilation_h;
            if (row < 0 || row >= g->height) continue;
            for (q = 0; q < g->kernel_w; ++q) {
              const int32_t column = j * g->stride_w - g->left + q * g->dilation_w;
              if (column < 0 || column >= g->width) continue;
              const @X *from = x + (row * g->width + column) * g->channels + c;
              ++inside;
              for (k = 0; k < count; ++k) sum[k] += (@ACC)from[k] - zero_point;
            }
          }
          {
            const int32_t times = common / (all != 0 ? all : inside);
            for (k = 0; k < count; ++k) y[c + k] = (@Y)@STORE(sum[k] * times, to, c + k);
          }
        }
      }
    }
  }
}
