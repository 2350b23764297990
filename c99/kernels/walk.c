/* An axis of x, and how far y moves along it; the last one is first. */
typedef struct {
  int32_t extent;
  int32_t step;
} @_axis;
