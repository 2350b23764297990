/* `count` weights of 4 bits, two in a byte, the first in the low bits. */
static void @self(const uint8_t *packed, int32_t count, int8_t *to) {
  int32_t i;
  for (i = 0; i + 2 <= count; i += 2, ++packed) {
    to[i] = (int8_t)(((*packed & 15) ^ 8) - 8);
    to[i + 1] = (int8_t)(((*packed >> 4) ^ 8) - 8);
  }
  if (i < count) to[i] = (int8_t)(((*packed & 15) ^ 8) - 8);
}
