/* Windows over images [height, width, channels]. */
typedef struct {
  int32_t images, height, width, channels;
  int32_t kernel_h, kernel_w;
  int32_t stride_h, stride_w;
  int32_t dilation_h, dilation_w;
  int32_t top, left; /* padding before the first row and column */
  int32_t out_h, out_w;
} @_window;
