#include "qtape/ops/relu.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Relu>;

}  // namespace qtape
