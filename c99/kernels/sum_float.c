/* From codes of two grids to a third. */
typedef struct {
  float a, b; /* scales of a and b by that of y */
  int32_t a_zero_point, b_zero_point, zero_point;
  int32_t low;
  int32_t high;
} @_sum;
