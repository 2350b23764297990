/* The largest code of each window, by channel. Returns @^_OK, or @^_REFUSED where CMSIS-NN refuses. */
static int32_t @self(const int8_t *x, int8_t *y, const @_window *g) {
  const cmsis_nn_context context = {0, 0};
  const cmsis_nn_pool_params params = {
      {g->stride_w, g->stride_h}, {g->left, g->top}, {-128, 127}};
  const cmsis_nn_dims in = {g->images, g->height, g->width, g->channels};
  const cmsis_nn_dims filter = {1, g->kernel_h, g->kernel_w, 1};
  const cmsis_nn_dims out = {g->images, g->out_h, g->out_w, g->channels};
  return arm_max_pool_s8(&context, &params, &in, x, &filter, &out, y) == ARM_CMSIS_NN_SUCCESS ? @^_OK
                                                                                             : @^_REFUSED;
}
