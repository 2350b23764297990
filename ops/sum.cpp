#include "qtape/ops/sum.h"

#include "qtape/ops/families/average.h"

namespace qtape {

static_assert(Compute<Sum>);

TensorType Sum::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  return {inputs[0].dtype, reduced_shape(inputs[0].shape, axes, keep_dims)};
}

Kernel Sum::forward(const Binding& b) const { return average_forward(b, axes, 1.0); }

Kernel Sum::backward(const Binding& b) const { return average_backward(b, axes, 1.0); }

}  // namespace qtape
