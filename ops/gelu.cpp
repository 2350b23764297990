#include "qtape/ops/gelu.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

TensorType Gelu::infer(Inputs inputs) const { return elementwise::infer(inputs); }
Kernel Gelu::forward(const Binding& binding) const {
  return elementwise::forward(*this, binding);
}
Kernel Gelu::backward(const Binding& binding) const {
  return elementwise::backward(*this, binding);
}

}  // namespace qtape
