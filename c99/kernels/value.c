/* The value of a sum of channel c. */
static inline float @self(@ACC sum, const float *scale, int32_t c) {
  (void)c;
  return (float)sum * scale[@INDEX];
}
