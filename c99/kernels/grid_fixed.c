/* A grid of codes, and the ratios that bring sums to it, in fixed point. */
typedef struct {
  const int32_t *multiplier; /* one, or one for each channel */
  const int8_t *shift;       /* the same */
  int32_t zero_point;
  int32_t low;
  int32_t high;
} @_grid;
