#include "qtape/ops/mean.h"

#include "qtape/ops/families/average.h"

namespace qtape {
namespace {

/// Number of elements of x per element of y. Not used if y is empty.
double divisor_of(const Binding& b) {
  return static_cast<double>(b.inputs[0].elements()) / static_cast<double>(b.output.elements());
}

}  // namespace

static_assert(Compute<Mean>);

TensorType Mean::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  const Shape& x = inputs[0].shape;
  const Shape y = reduced_shape(x, axes, keep_dims);
  check(x.elements() > 0 || y.elements() == 0, "the mean of no elements is undefined, x is {}",
        to_string(x));
  return {inputs[0].dtype, y};
}

Kernel Mean::forward(const Binding& b) const { return average_forward(b, axes, divisor_of(b)); }

Kernel Mean::backward(const Binding& b) const {
  return average_backward(b, axes, divisor_of(b));
}

}  // namespace qtape
