/* (sum multiplier + 2^(shift - 1)) >> shift of sums up to 2^47: in two parts, which fit. */
static inline int64_t @self(int64_t sum, int32_t multiplier, int32_t shift) {
  const int64_t most = 2147483647;
  int64_t low, high;
  if (shift < 16) sum = sum < -most - 1 ? -most - 1 : sum > most ? most : sum;
  low = (sum & most) * multiplier;
  high = (sum >> 31) * multiplier + (low >> 31);
  low &= most;
  if (shift > 31) return (high + ((int64_t)1 << (shift - 32))) >> (shift - 31);
  return high * ((int64_t)1 << (31 - shift)) + ((low + ((int64_t)1 << (shift - 1))) >> shift);
}
