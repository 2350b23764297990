/* Checks that CMSIS-NN rounds as this program does: 1 as a product, a quarter of which is @CODE. */
static int32_t @self(@_context *context) {
  static const int8_t x[4] = {1}, weights[4] = {1};
  static const int32_t zero[4] = {0}, multiplier[4] = {1073741824, 1073741824, 1073741824, 1073741824};
  static const int32_t shift[4] = {-1, -1, -1, -1};
  static const @_window window = {1, 1, 1, 4, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1};
  static const @_cmsis_grid grid = {multiplier, shift, 0, -128, 127};
  int8_t y[4] = {0};
  const int32_t status = @FUNCTION(x, y, &window, 0, weights, zero, context->arena->buffer,
                                   @^_BUFFER_BYTES, &grid);
  if (status != 0) return status;
  return y[0] == @CODE ? @^_OK : @^_OTHER_ROUNDING;
}
