// Kernels of convolutions. Included only by the .cpp files of these ops.
#pragma once

#include <algorithm>

#include "qtape/kernels/onednn/conv.h"
#include "qtape/ops/families/bf16.h"
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

/// `by_input`: filters are stored in the order of in_channels.
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

/// Operands of the gradients other than the filters, as `x` and `y` of the convolution: the
/// gradient of the output and operand 0. A transposed convolution exchanges the two.
template <class T>
struct Images {
  const T* x;
  const T* y;
};

/// Gradients of a convolution or of a transposed convolution.
struct Gradients {
  const kernels::Conv& c;
  const Binding& b;
  bool transposed;

  kernels::ConvPass data_pass() const {
    return transposed ? kernels::ConvPass::Forward : kernels::ConvPass::Data;
  }

  template <class T, class Result>
  Kernel data(const Images<T>& of, kernels::ConvRun run) const {
    run.accumulate = b.accumulate(0);
    const auto* filters = b.operand<const Result>(1);
    auto* dx = b.dx<Result>(0);
    return kernel_of(transposed ? prepare_conv(c, of.x, filters, dx, run)
                                : prepare_conv_data(c, of.y, filters, dx, run));
  }

  template <class T, class Result>
  Kernel filters(const Images<T>& of, kernels::ConvRun run) const {
    run.accumulate = b.accumulate(1);
    return kernel_of(prepare_conv_filters(c, of.x, of.y, b.dx<Result>(1), run));
  }

  template <class T>
  Images<T> images() const {
    const T* x = b.operand<const T>(0);
    const T* dy = b.dy_as<const T>();
    return transposed ? Images<T>{dy, x} : Images<T>{x, dy};
  }

  template <class T>
  Kernel all() const {
    Kernel dx, dw;
    if (b.wanted(0)) dx = data<T, T>(images<T>(), run_of(b, false));
    if (b.wanted(1)) dw = filters<T, T>(images<T>(), run_of(b, false));
    return sequence(std::move(dx), std::move(dw));
  }

  /// Uses bf16 where oneDNN is fast. The scratch starts with x and y.
  Kernel all_bf16() const {
    const bool dx_bf16 = has_bf16_conv(c, data_pass());
    const bool dw_bf16 = has_bf16_conv(c, kernels::ConvPass::Filters);
    auto* x = reinterpret_cast<BHalf*>(b.scratch);
    auto* y = reinterpret_cast<BHalf*>(b.scratch + bf16_bytes(c.x_elements()));
    kernels::ConvRun run = run_of(b, false);
    run.scratch = reinterpret_cast<std::byte*>(y) + bf16_bytes(c.y_elements());
    Kernel dx, dw, dy;
    if (b.wanted(0)) {
      dx = dx_bf16 ? data<BHalf, float>({x, y}, run) : data<float, float>(images<float>(), run);
    }
    if (b.wanted(1)) {
      dw = dw_bf16 ? sequence(bind_rounding(b, 0, transposed ? y : x),
                              filters<BHalf, float>({x, y}, run))
                   : filters<float, float>(images<float>(), run);
    }
    if ((dx && dx_bf16) || (dw && dw_bf16)) {
      dy = bind_rounding(b.dy_as<const float>(), b.output.elements(), transposed ? x : y,
                         b.threads);
    }
    return sequence(std::move(dy), sequence(std::move(dx), std::move(dw)));
  }
};

/// See Bf16Gradients.
inline int64_t bf16_scratch(const kernels::Conv& c, DType dtype, bool transposed = false) {
  if (dtype == DType::F64) return 0;
  const auto data = transposed ? kernels::ConvPass::Forward : kernels::ConvPass::Data;
  const int64_t of_dx = bf16_conv_scratch(c, data);
  const int64_t of_dw = bf16_conv_scratch(c, kernels::ConvPass::Filters);
  const bool all = of_dx > 0 && of_dw > 0;
  const int64_t in_f32 = all ? 0 : kernels::conv_scratch(c);
  if (of_dx == 0 && of_dw == 0) return in_f32;
  const int64_t most = std::max({in_f32, of_dx, of_dw});
  return bf16_bytes(c.x_elements()) + bf16_bytes(c.y_elements()) + most;
}

inline Kernel backward(const kernels::Conv& c, const Binding& b, bool transposed = false) {
  const Gradients gradients{c, b, transposed};
  if (b.gradient_precision == GradientPrecision::BF16 && b.output.dtype == DType::F32) {
    return gradients.all_bf16();
  }
  return dispatch_compute(b.output.dtype,
                          [&]<class T>() { return gradients.template all<T>(); });
}

}  // namespace convolution
}  // namespace qtape
