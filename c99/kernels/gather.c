/* Writes `count` channels of each element of the window that begins at (top, left), less the zero
 * point; 0 outside of the image. */
static void @self(const @X *restrict x, const @_window *restrict g, int32_t top, int32_t left,
                  int32_t count, int32_t zero_point, @V *restrict to) {
  const int32_t line = @LINE;
  const int32_t whole = count == g->channels && g->dilation_w == 1 && left >= 0 &&
                        left + g->kernel_w <= g->width;
  int32_t p, q, c;
  for (p = 0; p < g->kernel_h; ++p, to += line) {
    const int32_t row = top + p * g->dilation_h;
    if (row < 0 || row >= g->height) {
      for (c = 0; c < line; ++c) to[c] = 0;
    } else if (whole) {
      const @X *from = x + (row * g->width + left) * g->channels;
      for (c = 0; c < line; ++c) to[c] = (@V)(from[c] - zero_point);
    } else {
      for (q = 0; q < g->kernel_w; ++q) {
        const int32_t column = left + q * g->dilation_w;
        @V *part = to + q * count;
        if (column < 0 || column >= g->width) {
          for (c = 0; c < count; ++c) part[c] = 0;
        } else {
          const @X *from = x + (row * g->width + column) * g->channels;
          for (c = 0; c < count; ++c) part[c] = (@V)(from[c] - zero_point);
        }
      }
    }
  }
}
