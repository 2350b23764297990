/* `count` weights of 2 bits, four in a byte, the first in the lowest bits. */
static void @self(const uint8_t *packed, int32_t count, int8_t *to) {
  int32_t i;
  for (i = 0; i + 4 <= count; i += 4, ++packed) {
    to[i] = (int8_t)(((*packed & 3) ^ 2) - 2);
    to[i + 1] = (int8_t)((((*packed >> 2) & 3) ^ 2) - 2);
    to[i + 2] = (int8_t)((((*packed >> 4) & 3) ^ 2) - 2);
    to[i + 3] = (int8_t)(((*packed >> 6) ^ 2) - 2);
  }
  for (; i < count; ++i) to[i] = (int8_t)((((*packed >> (2 * (i % 4))) & 3) ^ 2) - 2);
}
