#include "qtape/ops/relu.h"

#include "qtape/ops/core/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Relu>;

}  // namespace qtape
