/* Checks that CMSIS-NN rounds as this program does: 1 as a product, a quarter of which is @CODE. */
static int32_t @self(@_context *context) {
  static const int8_t x[16] = {1}, weights[16] = {1};
  static const int32_t zero[4] = {0}, multiplier[1] = {1073741824}, shift[1] = {-1};
  static const @_cmsis_grid grid = {multiplier, shift, 0, -128, 127};
  int8_t y[4] = {0};
  const int32_t status = @FUNCTION(x, y, 1, 16, 1, 0, weights, zero, zero, 1, &grid);
  (void)context;
  if (status != 0) return status;
  return y[0] == @CODE ? @^_OK : @^_OTHER_ROUNDING;
}
