/* y = exponentials by their sum, of rows of n codes; `exps` has those of the codes 0, 1, .. below
 * the largest of a row, in 2^-31. */
static void @self(const int8_t *restrict x, int8_t *restrict y, int32_t rows, int32_t n,
                  const int32_t *restrict exps) {
  int32_t i;
  for (; rows > 0; --rows, x += n, y += n) {
    int32_t most = x[0], down = 35, half, factor;
    uint32_t sum = 0;
    for (i = 1; i < n; ++i) most = x[i] > most ? x[i] : most;
    for (i = 0; i < n; ++i) sum += ((uint32_t)exps[most - x[i]] + 2048u) >> 12;
    for (; sum < (uint32_t)1 << 31; --down) sum *= 2u;
    /* Newton's steps for 1 / half, in 2^-29. */
    half = (int32_t)(sum >> 1);
    factor = 1515870810 + @PRODUCT(half, -1010580540);
    for (i = 0; i < 3; ++i) {
      factor += 4 * @PRODUCT(factor, ((int32_t)1 << 29) - @PRODUCT(half, factor));
    }
    factor = factor < (int32_t)1 << 30 ? 2 * factor : 2147483647;
    for (i = 0; i < n; ++i) {
      const int64_t share = @PRODUCT(factor, exps[most - x[i]]);
      const int64_t code = (share + ((int64_t)1 << (down - 1))) >> down;
      y[i] = (int8_t)((code < 255 ? (int32_t)code : 255) - 128);
    }
  }
}
