/* The code of a sum of channel c. */
static inline int32_t @self(@ACC sum, const @_grid *to, int32_t c) {
  const int64_t low = to->low - to->zero_point;
  const int64_t high = to->high - to->zero_point;
  int64_t v = @SCALED(sum, to->multiplier[@INDEX], to->shift[@INDEX]);
  (void)c;
  v = v < low ? low : v;
  v = v > high ? high : v;
  return (int32_t)v + to->zero_point;
}
