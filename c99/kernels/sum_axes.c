/* y = sums of x, minus its zero point, over the axes along which y does not move. */
static void @self(const @X *restrict x, @ACC *restrict y, int32_t elements, int32_t sums,
                  int32_t zero_point, const @_axis *axes, int32_t count) {
  int32_t i, k;
  for (i = 0; i < sums; ++i) y[i] = 0;
  for (i = 0; i < elements; ++i) {
    int32_t to = 0;
    int32_t rest = i;
    for (k = 0; k < count; ++k) {
      to += rest % axes[k].extent * axes[k].step;
      rest /= axes[k].extent;
    }
    y[to] += (@ACC)x[i] - zero_point;
  }
}
