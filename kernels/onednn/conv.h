// Convolutions and their gradients, prepared once and run many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "qtape/core/types.h"

namespace qtape::kernels {

/// The windows along one axis of x: element j of window i is x[i stride + j dilation - begin],
/// and 0 where that is outside of [0, in). All extents are at least 1, and padded they are
/// below 2^31.
struct ConvAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;
  int64_t end = 0;
};

/// y [images, h.out, w.out, out_channels] of x [images, h.in, w.in, in_channels] and filters
/// [out_channels, h.kernel, w.kernel, in_channels / groups], all dense. Output channels of
/// group g read the input channels of group g alone.
struct Conv {
  int64_t images = 0;
  int64_t groups = 1;
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  ConvAxis h;
  ConvAxis w;
  /// Filters are stored [in_channels, h.kernel, w.kernel, out_channels / groups].
  bool by_input = false;

  int64_t x_elements() const { return images * h.in * w.in * in_channels; }
  int64_t y_elements() const { return images * h.out * w.out * out_channels; }
  int64_t filter_elements() const {
    return out_channels * h.kernel * w.kernel * (in_channels / groups);
  }
};

/// What is computed of the other two.
enum class ConvPass : uint8_t {
  Forward,  ///< y
  Data,     ///< dx
  Filters   ///< dw
};

/// Memory and threads of a prepared convolution.
struct ConvRun {
  std::byte* scratch = nullptr;  ///< conv_scratch or bf16_conv_scratch bytes, 64-byte aligned
  int threads = 1;
  bool accumulate = false;  ///< add to the result
};

/// Bytes of scratch that any of the next three functions needs. Throws GraphError where
/// oneDNN refuses.
int64_t conv_scratch(const Conv& conv);

/// Prepares y, dx or dw in f32 on oneDNN. Images are cut into pieces by the extents alone,
/// oneDNN computes each piece in one thread, and gradients of filters are summed over pieces in
/// their order: so there are equal bits at any thread count. Call the result within a
/// SerialLibraries (thread_count.h). Throws GraphError where oneDNN refuses.
std::function<void()> prepare_conv(const Conv& conv, const float* x, const float* w, float* y,
                                   const ConvRun& run);
std::function<void()> prepare_conv_data(const Conv& conv, const float* dy, const float* w,
                                        float* dx, const ConvRun& run);
std::function<void()> prepare_conv_filters(const Conv& conv, const float* x, const float* dy,
                                           float* dw, const ConvRun& run);

/// The same of operands rounded to bf16, with sums in f32: x and dy are given so, filters are
/// rounded on the way. Only where has_bf16_conv says that oneDNN has more than reference
/// code for it, here and for these extents.
bool has_bf16_conv(const Conv& conv, ConvPass pass);
/// Bytes of scratch, of which it always needs some; 0 where has_bf16_conv says no.
int64_t bf16_conv_scratch(const Conv& conv, ConvPass pass);
std::function<void()> prepare_conv(const Conv& conv, const BHalf* x, const float* w, float* y,
                                   const ConvRun& run);
std::function<void()> prepare_conv_data(const Conv& conv, const BHalf* dy, const float* w,
                                        float* dx, const ConvRun& run);
std::function<void()> prepare_conv_filters(const Conv& conv, const BHalf* x, const BHalf* dy,
                                           float* dw, const ConvRun& run);

/// The same in f64: plain loops, which need no scratch.
std::function<void()> prepare_conv(const Conv& conv, const double* x, const double* w,
                                   double* y, const ConvRun& run);
std::function<void()> prepare_conv_data(const Conv& conv, const double* dy, const double* w,
                                        double* dx, const ConvRun& run);
std::function<void()> prepare_conv_filters(const Conv& conv, const double* x, const double* dy,
                                           double* dw, const ConvRun& run);

}  // namespace qtape::kernels
