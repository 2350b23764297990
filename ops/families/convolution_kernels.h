// The kernels behind convolutions: included by the .cpp of each, nowhere else.
#pragma once

#include <algorithm>

#include "qtape/kernels/onednn/conv.h"
#include "qtape/ops/families/convolution.h"
#include "qtape/ops/families/sequence.h"

namespace qtape {
namespace convolution {

inline kernels::ConvAxis kernel_axis(const WindowAxis& a) {
  return {.in = a.in,
          .out = a.out,
          .kernel = a.kernel,
          .stride = std::min(a.stride, a.in + a.begin + a.end),  // below 2^31
          .dilation = a.kernel == 1 ? 1 : a.dilation,
          .begin = a.begin,
          .end = a.end};
}

/// `by_input`: filters lie in the order of in_channels.
inline kernels::Conv kernel_extents(const Convolution& c, bool by_input) {
  return {.images = c.images,
          .groups = c.groups,
          .in_channels = c.in_channels,
          .out_channels = c.out_channels,
          .h = kernel_axis(c.window.h),
          .w = kernel_axis(c.window.w),
          .by_input = by_input};
}

inline Kernel kernel_of(std::function<void()> run) {
  return [run = std::move(run)](const Step&) { run(); };
}

inline Footprint footprint(const kernels::Conv& c, DType dtype) {
  return {.scratch = dtype == DType::F32 ? kernels::conv_scratch(c) : 0};
}

inline kernels::ConvRun run_of(const Binding& b, bool accumulate) {
  return {.scratch = b.scratch, .threads = b.threads, .accumulate = accumulate};
}

inline Kernel forward(const kernels::Conv& c, const Binding& b) {
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    return kernel_of(prepare_conv(c, b.operand<const T>(0), b.operand<const T>(1), b.y<T>(),
                                  run_of(b, false)));
  });
}

inline Kernel backward(const kernels::Conv& c, const Binding& b) {
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    Kernel dx, dw;
    if (b.wanted(0)) {
      dx = kernel_of(prepare_conv_data(c, b.dy_as<const T>(), b.operand<const T>(1), b.dx<T>(0),
                                       run_of(b, b.accumulate(0))));
    }
    if (b.wanted(1)) {
      dw = kernel_of(prepare_conv_filters(c, b.operand<const T>(0), b.dy_as<const T>(),
                                          b.dx<T>(1), run_of(b, b.accumulate(1))));
    }
    return sequence(std::move(dx), std::move(dw));
  });
}

}  // namespace convolution
}  // namespace qtape
