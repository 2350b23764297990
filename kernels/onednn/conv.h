// Convolutions and their gradients, prepared once and executed many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "qtape/core/types.h"

namespace qtape::kernels {

/// Windows along one axis of x: element j of window i is x[i stride + j dilation - begin], or 0
/// where that index is outside [0, in). All extents are at least 1; padded extents are below
/// 2^31.
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
/// group g depend only on the input channels of group g.
struct Conv {
  int64_t images = 0;
  int64_t groups = 1;
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  ConvAxis h;
  ConvAxis w;
  /// True if filters are stored as [in_channels, h.kernel, w.kernel, out_channels / groups].
  bool by_input = false;

  int64_t x_elements() const { return images * h.in * w.in * in_channels; }
  int64_t y_elements() const { return images * h.out * w.out * out_channels; }
  int64_t filter_elements() const {
    return out_channels * h.kernel * w.kernel * (in_channels / groups);
  }
};

/// Result of a pass over a convolution; the other two tensors are its operands.
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

/// Bytes of scratch required by any of the next three functions. Throws GraphError if oneDNN
/// rejects the convolution.
int64_t conv_scratch(const Conv& conv);

/// Prepares the computation of y, dx or dw in f32 on oneDNN. Images are divided into pieces by
/// the extents alone. oneDNN computes each piece in one thread, and gradients of filters are
/// summed over the pieces in order, so the bits are equal at any thread count. Call the result
/// within the lifetime of a ComputingThread (threads.h). Throws GraphError if oneDNN rejects
/// the convolution.
std::function<void()> prepare_conv(const Conv& conv, const float* x, const float* w, float* y,
                                   const ConvRun& run);
std::function<void()> prepare_conv_data(const Conv& conv, const float* dy, const float* w,
                                        float* dx, const ConvRun& run);
std::function<void()> prepare_conv_filters(const Conv& conv, const float* x, const float* dy,
                                           float* dw, const ConvRun& run);

/// True if oneDNN supports this pass in bf16 on this processor, for these extents, by more than
/// reference code.
bool has_bf16_conv(const Conv& conv, ConvPass pass);
/// Bytes of scratch, always above 0 if has_bf16_conv is true; otherwise 0.
int64_t bf16_conv_scratch(const Conv& conv, ConvPass pass);
/// Variants for operands rounded to bf16, with sums in f32: x and dy are bf16; filters are f32
/// and rounded internally. Only valid if has_bf16_conv is true.
std::function<void()> prepare_conv(const Conv& conv, const BHalf* x, const float* w, float* y,
                                   const ConvRun& run);
std::function<void()> prepare_conv_data(const Conv& conv, const BHalf* dy, const float* w,
                                        float* dx, const ConvRun& run);
std::function<void()> prepare_conv_filters(const Conv& conv, const BHalf* x, const BHalf* dy,
                                           float* dw, const ConvRun& run);

/// Variants for f64: plain loops without scratch.
std::function<void()> prepare_conv(const Conv& conv, const double* x, const double* w,
                                   double* y, const ConvRun& run);
std::function<void()> prepare_conv_data(const Conv& conv, const double* dy, const double* w,
                                        double* dx, const ConvRun& run);
std::function<void()> prepare_conv_filters(const Conv& conv, const double* x, const double* dy,
                                           double* dw, const ConvRun& run);

}  // namespace qtape::kernels
