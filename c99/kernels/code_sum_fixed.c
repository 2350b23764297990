/* The code of a + b, minus their zero points: both brought to one scale, added, brought to y's. */
static inline int32_t @self(int32_t a, int32_t b, const @_sum *t) {
  const int64_t low = t->low - t->zero_point;
  const int64_t high = t->high - t->zero_point;
  const int64_t sum = @SCALED((int64_t)a * t->left, t->a, t->a_shift) +
                      @SCALED((int64_t)b * t->left, t->b, t->b_shift);
  int64_t v = @SCALED(sum, t->y, t->y_shift);
  v = v < low ? low : v;
  v = v > high ? high : v;
  return (int32_t)v + t->zero_point;
}
