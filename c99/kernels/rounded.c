/* A product by itself, not part of a fused multiply-add whatever the compiler is told. */
static inline float @self(float product) {
  volatile float v = product;
  return v;
}
