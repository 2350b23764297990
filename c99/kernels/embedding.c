/* Rows of `bytes` at `indices`, of a table of `rows`. Returns 1 where an index is of none, else 0.
 */
static int32_t @self(const void *table, const int32_t *restrict indices, void *to, int32_t n,
                     int32_t rows, int32_t bytes) {
  const uint8_t *x = (const uint8_t *)table;
  uint8_t *y = (uint8_t *)to;
  int32_t i;
  for (i = 0; i < n; ++i, y += bytes) {
    if (indices[i] < 0 || indices[i] >= rows) return 1;
    memcpy(y, x + indices[i] * bytes, (size_t)bytes);
  }
  return 0;
}
