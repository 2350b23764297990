/* A grid of codes, and the scales of the sums that come to it. */
typedef struct {
  const float *scale; /* of the sums: one, or one for each channel */
  float step;         /* scale of the codes */
  int32_t zero_point;
  int32_t low;
  int32_t high;
} @_grid;
