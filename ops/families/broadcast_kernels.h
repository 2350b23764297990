// Kernels of Broadcast. Included only by the .cpp files of ops that broadcast.
#pragma once

#include "qtape/ops/families/broadcast.h"
#include "qtape/ops/families/copy.h"
#include "qtape/ops/families/reduction_kernels.h"
#include "qtape/ops/families/sequence.h"

namespace qtape {
namespace detail {

template <class Op>
struct ValueOf {
  template <class T>
  T operator()(T, T a, T b) const {
    return Op::value(a, b);
  }
};

/// Gradient of operand `i`; its own value precedes the value of the other operand.
template <class Op, int i>
struct GradientOf {
  template <class T>
  T operator()(T dy, T own, T other) const {
    return i == 0 ? Op::gradient_a(dy, own, other) : Op::gradient_b(dy, other, own);
  }
};

/// True if the gradient of operand `i` is dy.
template <class Op, int i>
constexpr bool passes_dy() {
  if constexpr (Op::reads_operands) return false;
  return i == 0 || Op::gradient_b(1.0, 0.0, 0.0) == 1.0;
}

/// Gradient of an operand that is repeated.
template <class Op, class T, int i>
Kernel repeated_gradient(const Binding& b, const Tensors<T>& from) {
  SumWalk walk(b.output.shape, b.inputs[i].shape, b.inputs[1 - i].shape);
  if constexpr (passes_dy<Op, i>()) {
    return bind_sum_of<T>(std::move(walk), from, nullptr, b.dx<T>(i), b.accumulate(i),
                          b.threads);
  } else {
    return bind_sum<GradientOf<Op, i>>(std::move(walk), from, b.dx<T>(i), b.accumulate(i),
                                       b.threads);
  }
}

template <class Op, class T, int i>
Kernel broadcast_gradient(const Binding& b) {
  if (!b.wanted(i)) return {};
  const T* dy = b.dy_as<const T>();
  const bool same = i == 0 && !Op::reads_operands && dy == b.dx<T>(i) && !b.accumulate(i);
  if (same) return {};
  const Tensors<T> from{dy, Op::reads_operands ? b.operand<const T>(i) : dy,
                        Op::reads_operands ? b.operand<const T>(1 - i) : dy};
  const Shape& own = b.inputs[i].shape;
  const int64_t n = b.output.elements();
  if (own.elements() != n) return repeated_gradient<Op, T, i>(b, from);
  if constexpr (passes_dy<Op, i>()) {
    if (b.accumulate(i)) return bind_add(dy, b.dx<T>(i), n, b.threads);
    return bind_copy(b.dy, b.dx<std::byte>(i), b.output.bytes(), b.threads);
  } else {
    return bind_map(GradientOf<Op, i>{}, MapWalk(b.output.shape, own, b.inputs[1 - i].shape),
                    from, b.dx<T>(i), b.accumulate(i), b.threads);
  }
}

}  // namespace detail

/// y = Op::value(a, b).
template <class Op>
Kernel broadcast_forward(const Binding& b) {
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    const MapWalk walk(b.output.shape, b.inputs[0].shape, b.inputs[1].shape);
    const Tensors<T> from{b.y<const T>(), b.operand<const T>(0), b.operand<const T>(1)};
    return bind_map(detail::ValueOf<Op>{}, walk, from, b.y<T>(), false, b.threads);
  });
}

/// Computes the wanted gradients, that of operand 0 first.
template <class Op>
Kernel broadcast_backward(const Binding& b) {
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    return sequence(detail::broadcast_gradient<Op, T, 0>(b),
                    detail::broadcast_gradient<Op, T, 1>(b));
  });
}

template <class Op>
TensorType Broadcast<Op>::infer(Inputs inputs) const {
  check_same_compute(inputs[0], inputs[1]);
  return {inputs[0].dtype, broadcast_shape(inputs[0].shape, inputs[1].shape)};
}

template <class Op>
Kernel Broadcast<Op>::forward(const Binding& b) const {
  return broadcast_forward<Op>(b);
}

template <class Op>
Kernel Broadcast<Op>::backward(const Binding& b) const {
  return broadcast_backward<Op>(b);
}

}  // namespace qtape
