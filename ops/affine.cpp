#include "qtape/ops/affine.h"

#include <cmath>

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

TensorType Affine::infer(Inputs inputs) const {
  const TensorType y = elementwise::infer(inputs);
  check(std::isfinite(factor) && std::isfinite(offset),
        "factor and offset must be finite, got {} and {}", factor, offset);
  const auto held = [&](double number) {
    return y.dtype == DType::F64 || std::isfinite(static_cast<float>(number));
  };
  check(held(factor) && held(offset), "factor {} and offset {} do not fit into f32", factor,
        offset);
  return y;
}
Kernel Affine::forward(const Binding& binding) const {
  return elementwise::forward(*this, binding);
}
Kernel Affine::backward(const Binding& binding) const {
  return elementwise::backward(*this, binding);
}

}  // namespace qtape
