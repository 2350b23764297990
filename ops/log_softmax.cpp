#include "qtape/ops/log_softmax.h"

#include "qtape/ops/families/softmax_axis.h"

namespace qtape {

static_assert(Compute<LogSoftmax>);

TensorType LogSoftmax::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  resolve_axis(axis, inputs[0].shape);
  return inputs[0];
}

Kernel LogSoftmax::forward(const Binding& b) const {
  return softmax::bind_forward<true>(b, axis);
}

Kernel LogSoftmax::backward(const Binding& b) const {
  return softmax::bind_backward<true>(b, axis);
}

}  // namespace qtape
