/* Copies rows of `bytes` that lie apart. */
static void @self(const void *from, int32_t from_row, void *to, int32_t to_row, int32_t rows,
                  int32_t bytes) {
  const uint8_t *x = (const uint8_t *)from;
  uint8_t *y = (uint8_t *)to;
  for (; rows > 0; --rows, x += from_row, y += to_row) memcpy(y, x, (size_t)bytes);
}
