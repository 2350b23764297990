#include "qtape/ops/elu.h"

#include <cmath>

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

TensorType Elu::infer(Inputs inputs) const {
  const TensorType y = elementwise::infer(inputs);
  check(
      std::isfinite(alpha) && std::isfinite(scale) && std::isfinite(input_scale) &&
          input_scale >= 0,
      "alpha and scale must be finite, input_scale finite and not negative, got {}, {} and {}",
      alpha, scale, input_scale);
  elementwise::check_held(y, "alpha times scale", alpha * scale);
  elementwise::check_held(y, "scale", scale);
  return y;
}
Kernel Elu::forward(const Binding& binding) const {
  return elementwise::forward(*this, binding);
}
Kernel Elu::backward(const Binding& binding) const {
  return elementwise::backward(*this, binding);
}

}  // namespace qtape
