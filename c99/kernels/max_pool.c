/* The largest code of each window, by channel; what lies outside of the image is left out. */
static void @self(const @X *restrict x, @X *restrict y, const @_window *restrict g) {
  int32_t n, i, j, p, q, c;
  for (n = 0; n < g->images; ++n, x += g->height * g->width * g->channels) {
    for (i = 0; i < g->out_h; ++i) {
      for (j = 0; j < g->out_w; ++j, y += g->channels) {
        int32_t first = 1;
        for (p = 0; p < g->kernel_h; ++p) {
          const int32_t row = i * g->stride_h - g->top + p * g->dilation_h;
          if (row < 0 || row >= g->height) continue;
          for (q = 0; q < g->kernel_w; ++q) {
            const int32_t column = j * g->stride_w - g->left + q * g->dilation_w;
            if (column < 0 || column >= g->width) continue;
            const @X *from = x + (row * g->width + column) * g->channels;
            if (first) {
              for (c = 0; c < g->channels; ++c) y[c] = from[c];
            } else {
              for (c = 0; c < g->channels; ++c) y[c] = from[c] > y[c] ? from[c] : y[c];
            }
            first = 0;
          }
        }
      }
    }
  }
}
