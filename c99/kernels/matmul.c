/* y[i, j] of the sum over t of a[i, t] b[t, j], both minus their zero points, by matrix. */
static void @self(const @A *restrict a, const @B *restrict b, @Y *restrict y,
                  const @_matmul *restrict g, const @TO *restrict to) {
  @ACC sum[16];
  int32_t p, i, j, t, k;
  for (p = 0; p < g->matrices; ++p, a += g->rows * g->terms, b += g->b_matrix) {
    for (i = 0; i < g->rows; ++i, y += g->columns) {
      for (j = 0; j < g->columns; j += 16) {
        const int32_t count = g->columns - j < 16 ? g->columns - j : 16;
        for (k = 0; k < count; ++k) sum[k] = 0;
        for (t = 0; t < g->terms; ++t) {
          const @ACC v = (@ACC)a[i * g->a_row + t * g->a_term] - g->a_zero_point;
          const @B *from = b + t * g->b_term + j * g->b_column;
          for (k = 0; k < count; ++k) {
            sum[k] += v * ((@ACC)from[k * g->b_column] - g->b_zero_point);
          }
        }
        for (k = 0; k < count; ++k) y[j + k] = (@Y)@STORE(sum[k], to, 0);
      }
    }
  }
}
