/* A sum as it is. */
static inline @ACC @self(@ACC sum, const void *to, int32_t c) {
  (void)to;
  (void)c;
  return sum;
}
