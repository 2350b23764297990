/* y = codes of a + b. */
static void @self(const @A *a, const @B *b, @Y *y, int32_t n, const @_sum *t) {
  int32_t i;
  for (i = 0; i < n; ++i) {
    y[i] = (@Y)@CODE((int32_t)a[i] - t->a_zero_point, (int32_t)b[i] - t->b_zero_point, t);
  }
}
