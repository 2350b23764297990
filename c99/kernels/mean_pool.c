/* y = the mean of the codes of each window within the image, by channel, halves away from 0. */
static void @self(const @X *restrict x, @X *restrict y, const @_window *restrict g) {
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
              for (k = 0; k < count; ++k) sum[k] += from[k];
            }
          }
          for (k = 0; k < count; ++k) {
            const @ACC half = inside / 2;
            y[c + k] = (@X)((sum[k] > 0 ? sum[k] + half : sum[k] - half) / inside);
          }
        }
      }
    }
  }
}
