/* The nearest integer, ties up; |v| < 2^22. */
static inline float @self(float v) {
  const float nearest = @EVEN(v);
  const float floor = nearest > v ? nearest - 1.0f : nearest;
  return v - floor >= 0.5f ? floor + 1.0f : floor;
}
