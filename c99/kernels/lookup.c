/* y = table[x - least]: `table` begins with the code of the least x. */
static void @self(const @X *x, @Y *y, int32_t n, const @Y *restrict table) {
  int32_t i;
  for (i = 0; i < n; ++i) y[i] = table[(int32_t)x[i] - (@LEAST)];
}
