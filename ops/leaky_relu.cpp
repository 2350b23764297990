#include "qtape/ops/leaky_relu.h"

#include <cmath>

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

TensorType LeakyRelu::infer(Inputs inputs) const {
  const TensorType y = elementwise::infer(inputs);
  check(std::isfinite(negative_slope), "negative_slope must be finite, got {}", negative_slope);
  elementwise::check_held(y, "negative_slope", negative_slope);
  return y;
}
Kernel LeakyRelu::forward(const Binding& binding) const {
  return elementwise::forward(*this, binding);
}
Kernel LeakyRelu::backward(const Binding& binding) const {
  return elementwise::backward(*this, binding);
}

}  // namespace qtape
