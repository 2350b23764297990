/* y in its order; `axes` are how x moves along those of y. */
static void @self(const @X *restrict x, @X *restrict y, int32_t elements, const @_axis *axes,
                  int32_t count) {
  const int32_t width = axes[0].extent;
  const int32_t step = axes[0].step;
  int32_t r, c, k;
  for (r = 0; r < elements / width; ++r) {
    const @X *from = x;
    int32_t rest = r;
    for (k = 1; k < count; ++k) {
      from += rest % axes[k].extent * axes[k].step;
      rest /= axes[k].extent;
    }
    for (c = 0; c < width; ++c) *y++ = from[c * step];
  }
}
