/* From codes of two grids to a third, in fixed point: `left` is a power of 2. */
typedef struct {
  int32_t left;
  int32_t a, a_shift, b, b_shift, y, y_shift; /* multipliers and shifts */
  int32_t a_zero_point, b_zero_point, zero_point;
  int32_t low;
  int32_t high;
} @_sum;
