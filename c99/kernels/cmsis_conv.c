/* Codes of the products of windows with filters. Returns @^_OK, or @^_REFUSED where CMSIS-NN refuses or wants
 * a larger buffer. */
static int32_t @self(const int8_t *x, int8_t *y, const @_window *g, int32_t zero_point,
                     int32_t groups, int32_t outputs, const int8_t *weights,
                     const int32_t *bias, void *buffer, int32_t bytes,
                     const @_cmsis_grid *to) {
  const cmsis_nn_context context = {buffer, bytes};
  const cmsis_nn_conv_params params = {-zero_point,
                                       to->zero_point,
                                       {g->stride_w, g->stride_h},
                                       {g->left, g->top},
                                       {g->dilation_w, g->dilation_h},
                                       {to->low, to->high}};
  const cmsis_nn_per_channel_quant_params scales = {(int32_t *)to->multiplier,
                                                    (int32_t *)to->shift};
  const cmsis_nn_dims in = {g->images, g->height, g->width, g->channels};
  const cmsis_nn_dims filter = {outputs, g->kernel_h, g->kernel_w, g->channels / groups};
  const cmsis_nn_dims biases = {1, 1, 1, outputs};
  const cmsis_nn_dims out = {g->images, g->out_h, g->out_w, outputs};
  if (arm_convolve_wrapper_s8_get_buffer_size(&params, &in, &filter, &out) > bytes) return @^_REFUSED;
  return arm_convolve_wrapper_s8(&context, &params, &scales, &in, x, &filter, weights, &biases,
                                 bias, &out, y) == ARM_CMSIS_NN_SUCCESS
             ? @^_OK
             : @^_REFUSED;
}
