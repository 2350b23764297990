/* y = table[c][x - least]: `table` has a row for each index c of the last axis, which begins with
   the code of the least x. */
static void @self(const @X *x, @Y *y, int32_t n, int32_t rows, const @Y *restrict table) {
  int32_t i, row = 0;
  for (i = 0; i < n; ++i) {
    y[i] = table[row * (@ENTRIES) + (int32_t)x[i] - (@LEAST)];
    row = row + 1 == rows ? 0 : row + 1;
  }
}
