/* Codes of the products of rows x with weights [outputs, terms]. On Helium `sums` are those of
 * each output's weights, with bias and zero point. Returns @^_OK, or @^_REFUSED where CMSIS-NN refuses. */
static int32_t @self(const int8_t *x, int8_t *y, int32_t rows, int32_t terms, int32_t outputs,
                     int32_t zero_point, const int8_t *weights, const int32_t *bias,
                     const int32_t *sums, int32_t each, const @_cmsis_grid *to) {
  const cmsis_nn_context context = {(void *)sums, 4 * outputs};
  const cmsis_nn_fc_params params = {-zero_point, 0, to->zero_point, {to->low, to->high}};
  const cmsis_nn_quant_params scales = {(int32_t *)to->multiplier, (int32_t *)to->shift, each};
  const cmsis_nn_dims in = {rows, 1, 1, terms};
  const cmsis_nn_dims filter = {terms, 1, 1, outputs};
  const cmsis_nn_dims biases = {1, 1, 1, outputs};
  const cmsis_nn_dims out = {rows, 1, 1, outputs};
  return arm_fully_connected_wrapper_s8(&context, &params, &scales, &in, x, &filter, weights,
                                        &biases, bias, &out, y) == ARM_CMSIS_NN_SUCCESS
             ? @^_OK
             : @^_REFUSED;
}
