/* Codes y, all of them `code`, then rows of x [..., width] from y + at on; `axes` are those of
 * x but the last. */
static void @self(const @X *restrict x, @X *restrict y, int32_t elements, @X code, int32_t at,
                  int32_t rows, int32_t width, const @_axis *axes, int32_t count) {
  int32_t i, r, k;
  for (i = 0; i < elements; ++i) y[i] = code;
  for (r = 0; r < rows; ++r, x += width) {
    int32_t to = at;
    int32_t rest = r;
    for (k = 0; k < count; ++k) {
      to += rest % axes[k].extent * axes[k].step;
      rest /= axes[k].extent;
    }
    memcpy(y + to, x, (size_t)width * sizeof(*x));
  }
}
