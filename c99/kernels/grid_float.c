/* A grid of codes, and the ratios that bring sums to it. */
typedef struct {
  const float *scale; /* scale of the sums by that of the codes: one, or one for each channel */
  int32_t zero_point;
  int32_t low;
  int32_t high;
} @_grid;
