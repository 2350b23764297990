/* Rows of `bytes` at begin, begin + step, ..., `count` in all, of each of `parts` parts of x of
 * `part` bytes. */
static void @self(const void *from, int32_t part, void *to, int32_t parts, int32_t bytes,
                  int32_t begin, int32_t step, int32_t count) {
  const uint8_t *x = (const uint8_t *)from;
  uint8_t *y = (uint8_t *)to;
  int32_t k;
  for (; parts > 0; --parts, x += part) {
    for (k = 0; k < count; ++k, y += bytes) {
      memcpy(y, x + (begin + k * step) * bytes, (size_t)bytes);
    }
  }
}
