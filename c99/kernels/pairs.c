/* y = @WHAT; an operand is repeated along the axes along which it does not move. */
static void @self(const @A *a, const @B *b, @Y *y, int32_t rows, const @_pair_axis *axes,
                  int32_t count@ARGUMENTS) {
  int32_t row, i, k;
  for (row = 0; row < rows; ++row) {
    const @A *from_a = a;
    const @B *from_b = b;
    int32_t rest = row;
    for (k = 1; k < count; ++k) {
      from_a += rest % axes[k].extent * axes[k].a;
      from_b += rest % axes[k].extent * axes[k].b;
      rest /= axes[k].extent;
    }
    for (i = 0; i < axes[0].extent; ++i, ++y) {
      const int32_t p = from_a[i * axes[0].a];
      const int32_t q = from_b[i * axes[0].b];
      *y = (@Y)@VALUE;
    }
  }
}
