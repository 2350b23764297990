/* An axis of a result, and how far its two operands move along it; the last one is first. */
typedef struct {
  int32_t extent;
  int32_t a;
  int32_t b;
} @_pair_axis;
