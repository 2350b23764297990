/* As above, of sums up to 2^47. */
static inline int64_t @self(int64_t sum, int32_t multiplier, int32_t exponent) {
  const int32_t left = exponent > 0 ? exponent : 0;
  const int32_t right = exponent < 0 ? -exponent : 0;
  const int64_t mask = ((int64_t)1 << right) - 1;
  const int64_t high = @PRODUCT(sum, multiplier, 31 - left);
  const int64_t up = (high & mask) > (mask >> 1) + (high < 0 ? 1 : 0) ? 1 : 0;
  return (high >> right) + up;
}
