/* y = the largest x over the axes along which y does not move. */
static void @self(const @X *restrict x, @X *restrict y, int32_t elements, int32_t results,
                  const @_axis *axes, int32_t count) {
  int32_t i, k;
  for (i = 0; i < results; ++i) y[i] = @LEAST;
  for (i = 0; i < elements; ++i) {
    int32_t to = 0;
    int32_t rest = i;
    for (k = 0; k < count; ++k) {
      to += rest % axes[k].extent * axes[k].step;
      rest /= axes[k].extent;
    }
    if (x[i] > y[to]) y[to] = x[i];
  }
}
