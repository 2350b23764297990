/* The nearest integer, ties to even; |v| <= 2^22. */
static inline float @self(float v) { return (v + 12582912.0f) - 12582912.0f; }
