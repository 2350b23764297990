#include "qtape/ops/clamp.h"

#include <cmath>

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

TensorType Clamp::infer(Inputs inputs) const {
  const TensorType y = elementwise::infer(inputs);
  check(std::isfinite(low) && std::isfinite(high), "low and high must be finite, got {} and {}",
        low, high);
  elementwise::check_held(y, "low", low);
  elementwise::check_held(y, "high", high);
  check(low <= high, "low must be at most high, got {} and {}", low, high);
  return y;
}
Kernel Clamp::forward(const Binding& binding) const {
  return elementwise::forward(*this, binding);
}
Kernel Clamp::backward(const Binding& binding) const {
  return elementwise::backward(*this, binding);
}

}  // namespace qtape
