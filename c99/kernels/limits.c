/* Scales of sums, and the limits of their values. */
typedef struct {
  const float *scale; /* one, or one for each channel */
  float low;
  float high;
} @_limits;
