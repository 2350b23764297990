/* The code of a + b, minus their zero points: round((a s_a + b s_b) / s), ties to even. */
static inline int32_t @self(int32_t a, int32_t b, const @_sum *t) {
  const float low = (float)(t->low - t->zero_point);
  const float high = (float)(t->high - t->zero_point);
  float v = (@ROUNDED((float)a * t->a) + @ROUNDED((float)b * t->b)) / t->step;
  v = v < low ? low : v;
  v = v > high ? high : v;
  return (int32_t)((v + 12582912.0f) - 12582912.0f) + t->zero_point;
}
