/* From codes of two grids to a third, as CMSIS-NN takes it: bits to shift left, multipliers and
 * shifts. */
typedef struct {
  int32_t left;
  int32_t a, a_shift, b, b_shift, y, y_shift;
  int32_t a_zero_point, b_zero_point, zero_point;
  int32_t low;
  int32_t high;
} @_cmsis_sum;
