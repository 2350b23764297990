/* The code of a sum of channel c: round(float(sum) scale), ties to even. */
static inline int32_t @self(@ACC sum, const @_grid *to, int32_t c) {
  const float low = (float)(to->low - to->zero_point);
  const float high = (float)(to->high - to->zero_point);
  float v = (float)sum * to->scale[@INDEX];
  (void)c;
  v = v < low ? low : v;
  v = v > high ? high : v;
  return (int32_t)((v + 12582912.0f) - 12582912.0f) + to->zero_point;
}
