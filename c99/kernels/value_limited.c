/* The value of a sum of channel c, limited. */
static inline float @self(@ACC sum, const @_limits *to, int32_t c) {
  const float v = (float)sum * to->scale[@INDEX];
  (void)c;
  return @LIMITED;
}
