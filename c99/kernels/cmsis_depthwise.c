/* Codes of the products of windows with a filter for each channel, weights [kernel_h, kernel_w,
 * channels]. Returns @^_OK, or @^_REFUSED where CMSIS-NN refuses or wants a larger buffer. */
static int32_t @self(const int8_t *x, int8_t *y, const @_window *g, int32_t zero_point,
                     const int8_t *weights, const int32_t *bias, void *buffer, int32_t bytes,
                     const @_cmsis_grid *to) {
  const cmsis_nn_context context = {buffer, bytes};
  const cmsis_nn_dw_conv_params params = {-zero_point,
                                          to->zero_point,
                                          1,
                                          {g->stride_w, g->stride_h},
                                          {g->left, g->top},
                                          {g->dilation_w, g->dilation_h},
                                          {to->low, to->high}};
  const cmsis_nn_per_channel_quant_params scales = {(int32_t *)to->multiplier,
                                                    (int32_t *)to->shift};
  const cmsis_nn_dims in = {g->images, g->height, g->width, g->channels};
  const cmsis_nn_dims filter = {1, g->kernel_h, g->kernel_w, g->channels};
  const cmsis_nn_dims biases = {1, 1, 1, g->channels};
  const cmsis_nn_dims out = {g->images, g->out_h, g->out_w, g->channels};
  if (arm_depthwise_conv_wrapper_s8_get_buffer_size(&params, &in, &filter, &out) > bytes) {
    return @^_REFUSED;
  }
  return arm_depthwise_conv_wrapper_s8(&context, &params, &scales, &in, x, &filter, weights,
                                       &biases, bias, &out, y) == ARM_CMSIS_NN_SUCCESS
             ? @^_OK
             : @^_REFUSED;
}
