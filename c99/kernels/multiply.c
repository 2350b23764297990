/* y = codes of a b. */
static void @self(const @A *a, const @B *b, @Y *y, int32_t n, int32_t a_zero_point,
                  int32_t b_zero_point, const @_grid *to) {
  int32_t i;
  for (i = 0; i < n; ++i) {
    y[i] = (@Y)@CODE((@ACC)((int32_t)a[i] - a_zero_point) * ((int32_t)b[i] - b_zero_point), to, 0);
  }
}
