/* The position of index i of y in parts of x's, within x. */
static int32_t @self(int32_t i, const @_positions *a) {
  const int32_t last = (a->in - 1) * a->divisor;
  const int32_t place = i * a->step + a->offset;
  return place < 0 ? 0 : place > last ? last : place;
}
