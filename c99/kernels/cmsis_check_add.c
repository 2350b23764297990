/* Checks that CMSIS-NN rounds as this program does: 1 as a sum, a quarter of which is @CODE. */
static int32_t @self(@_context *context) {
  static const int8_t a[4] = {1}, b[4] = {0};
  static const @_cmsis_sum terms = {0,  1073741824, -1, 1073741824, -1, 1073741824, 1, 0, 0, 0,
                                    -128, 127};
  int8_t y[4] = {0};
  const int32_t status = @FUNCTION(a, b, y, 4, &terms);
  (void)context;
  if (status != 0) return status;
  return y[0] == @CODE ? @^_OK : @^_OTHER_ROUNDING;
}
