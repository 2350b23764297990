#include "qtape/ops/add_bias.h"

#include "qtape/ops/add.h"

namespace qtape {

static_assert(Compute<AddBias>);

TensorType AddBias::infer(Inputs inputs) const {
  check_same_compute(inputs[0], inputs[1]);
  const Shape& x = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  check(x.rank() >= 1, "x needs rank >= 1, got a scalar");
  check(b.rank() == 1 && b[0] == x[-1], "b must be [{}], the last extent of x, got {}", x[-1],
        to_string(b));
  return inputs[0];
}

Kernel AddBias::forward(const Binding& b) const { return Add{}.forward(b); }

Kernel AddBias::backward(const Binding& b) const { return Add{}.backward(b); }

}  // namespace qtape
