#include "qtape/ops/pow.h"

#include <cmath>

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

TensorType Pow::infer(Inputs inputs) const {
  const TensorType y = elementwise::infer(inputs);
  check(std::isfinite(exponent), "exponent must be finite, got {}", exponent);
  return y;
}
Kernel Pow::forward(const Binding& binding) const {
  return elementwise::forward(*this, binding);
}
Kernel Pow::backward(const Binding& binding) const {
  return elementwise::backward(*this, binding);
}

}  // namespace qtape
