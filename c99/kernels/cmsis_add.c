/* y = codes of a + b. Returns @^_OK, or @^_REFUSED where CMSIS-NN refuses. */
static int32_t @self(const int8_t *a, const int8_t *b, int8_t *y, int32_t n, const @_cmsis_sum *t) {
  return arm_elementwise_add_s8(a, b, -t->a_zero_point, t->a, t->a_shift, -t->b_zero_point, t->b,
                                t->b_shift, t->left, y, t->zero_point, t->y, t->y_shift, t->low,
                                t->high, n) == ARM_CMSIS_NN_SUCCESS
             ? @^_OK
             : @^_REFUSED;
}
