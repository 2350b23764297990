/* Positions of y along an axis: index i is at (step i + offset) / divisor of x. */
typedef struct {
  int32_t in, out, step, offset, divisor;
} @_positions;
