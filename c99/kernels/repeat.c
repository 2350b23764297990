/* Repeats each position [height, width] of images by (by_h, by_w); `bytes` of each. */
static void @self(const void *from, void *to, int32_t images, int32_t height, int32_t width,
                  int32_t by_h, int32_t by_w, int32_t bytes) {
  const uint8_t *x = (const uint8_t *)from;
  uint8_t *y = (uint8_t *)to;
  int32_t n, i, j;
  for (n = 0; n < images; ++n, x += height * width * bytes) {
    for (i = 0; i < height * by_h; ++i) {
      for (j = 0; j < width * by_w; ++j, y += bytes) {
        memcpy(y, x + (i / by_h * width + j / by_w) * bytes, (size_t)bytes);
      }
    }
  }
}
