/* round(sum multiplier 2^-shift), ties up, with multipliers of 15 bits: of 16-bit codes. */
static inline int64_t @self(int64_t sum, int32_t multiplier, int32_t shift) {
  const int64_t most = 2147483647;
  int64_t product = sum * multiplier;
  if (shift > 0) return (product + ((int64_t)1 << (shift - 1))) >> shift;
  product = product < -most - 1 ? -most - 1 : product > most ? most : product;
  return product * ((int64_t)1 << -shift);
}
