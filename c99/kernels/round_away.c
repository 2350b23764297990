/* The nearest integer, ties away from 0; |v| < 2^22. */
static inline float @self(float v) { return v < 0.0f ? -@UP(-v) : @UP(v); }
