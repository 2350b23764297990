#include "qtape/ops/affine.h"

#include <cmath>

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

TensorType Affine::infer(Inputs inputs) const {
  const TensorType y = elementwise::infer(inputs);
  check(std::isfinite(factor) && std::isfinite(offset),
        "factor and offset must be finite, got {} and {}", factor, offset);
  elementwise::check_held(y, "factor", factor);
  elementwise::check_held(y, "offset", offset);
  return y;
}
Kernel Affine::forward(const Binding& binding) const {
  return elementwise::forward(*this, binding);
}
Kernel Affine::backward(const Binding& binding) const {
  return elementwise::backward(*this, binding);
}

}  // namespace qtape
