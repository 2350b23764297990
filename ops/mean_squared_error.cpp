#include "qtape/ops/mean_squared_error.h"

#include "qtape/ops/families/reduction_kernels.h"
#include "qtape/ops/families/sequence.h"

namespace qtape {
namespace {

struct SquaredDifference {
  template <class T>
  T operator()(T x, T, T target) const {
    return (x - target) * (x - target);
  }
};

/// dy * factor * (x - other), in double.
struct Slope {
  double factor;
  template <class T>
  T operator()(T x, T dy, T other) const {
    return static_cast<T>(factor * double{dy} * (double{x} - double{other}));
  }
};

/// Gradient of operand `i`: proportional to its difference from the other operand.
template <class T>
Kernel gradient(const Binding& b, int i) {
  if (!b.wanted(i)) return {};
  const Shape& shape = b.inputs[0].shape;
  const Tensors<T> from{b.operand<const T>(i), b.dy_as<const T>(), b.operand<const T>(1 - i)};
  return bind_map(Slope{2.0 / static_cast<double>(shape.elements())},
                  MapWalk(shape, Shape{}, shape), from, b.dx<T>(i), b.accumulate(i), b.threads);
}

}  // namespace

static_assert(Compute<MeanSquaredError>);

TensorType MeanSquaredError::infer(Inputs inputs) const {
  check_same_compute(inputs[0], inputs[1]);
  check(inputs[0].shape == inputs[1].shape, "shapes differ: {} and {}",
        to_string(inputs[0].shape), to_string(inputs[1].shape));
  check(inputs[0].elements() > 0, "the mean of no elements is undefined, prediction is {}",
        to_string(inputs[0].shape));
  return {inputs[0].dtype, Shape{}};
}

Kernel MeanSquaredError::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    const Shape& shape = b.inputs[0].shape;
    const T* x = b.operand<const T>(0);
    return bind_sum<SquaredDifference>(SumWalk(shape, Shape{}, shape),
                                       Tensors<T>{x, x, b.operand<const T>(1)}, b.y<T>(), false,
                                       b.threads, static_cast<double>(shape.elements()));
  });
}

Kernel MeanSquaredError::backward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    return sequence(gradient<T>(b, 0), gradient<T>(b, 1));
  });
}

}  // namespace qtape
