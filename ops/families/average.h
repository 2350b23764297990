// Kernels shared by sum and mean over axes.
#pragma once

#include "qtape/ops/families/reduction_kernels.h"

namespace qtape {

namespace detail {

/// a * factor, in double.
struct Share {
  double factor;
  template <class T>
  T operator()(T, T a, T) const {
    return static_cast<T>(double{a} * factor);
  }
};

}  // namespace detail

/// y = the sum of x over `axes`, divided by `divisor`.
inline Kernel average_forward(const Binding& b, std::span<const int> axes, double divisor) {
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    const Shape& shape = b.inputs[0].shape;
    const T* x = b.operand<const T>(0);
    return bind_sum_of<T>(SumWalk(shape, reduced_shape(shape, axes), shape), {.x = x}, nullptr,
                          b.y<T>(), false, b.threads, divisor);
  });
}

/// dx (+)= dy * (1 / divisor), repeated along `axes`.
inline Kernel average_backward(const Binding& b, std::span<const int> axes, double divisor) {
  if (!b.wanted(0)) return {};
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    const Shape& shape = b.inputs[0].shape;
    const T* dx = b.dx<const T>(0);
    return bind_map(
        detail::Share{1.0 / divisor}, MapWalk(shape, reduced_shape(shape, axes), shape),
        Tensors<T>{dx, b.dy_as<const T>(), dx}, b.dx<T>(0), b.accumulate(0), b.threads);
  });
}

}  // namespace qtape
