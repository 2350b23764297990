#include "qtape/ops/softmax.h"

#include "qtape/ops/families/softmax_axis.h"

namespace qtape {

static_assert(Compute<Softmax>);

TensorType Softmax::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  resolve_axis(axis, inputs[0].shape);
  return inputs[0];
}

Kernel Softmax::forward(const Binding& b) const {
  return softmax::bind_forward<false>(b, axis);
}

Kernel Softmax::backward(const Binding& b) const {
  return softmax::bind_backward<false>(b, axis);
}

}  // namespace qtape
