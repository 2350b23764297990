#include "qtape/ops/prelu.h"

#include "qtape/ops/families/broadcast_kernels.h"

namespace qtape {

static_assert(Compute<PRelu>);

TensorType PRelu::infer(Inputs inputs) const {
  check_same_compute(inputs[0], inputs[1]);
  const Shape& x = inputs[0].shape;
  const Shape& slope = inputs[1].shape;
  const bool each = x.rank() >= 1 && slope.rank() == 1 && slope[0] == x[-1];
  check(each || slope == Shape{1},
        "slope must be [1], or [n] for the last extent n of {}, got {}", to_string(x),
        to_string(slope));
  check(x.rank() >= 1, "x needs rank >= 1, got a scalar");
  return inputs[0];
}

Kernel PRelu::forward(const Binding& b) const { return broadcast_forward<PRelu>(b); }

Kernel PRelu::backward(const Binding& b) const { return broadcast_backward<PRelu>(b); }

}  // namespace qtape
