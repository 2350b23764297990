#include "qtape/ops/relu6.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Relu6>;

}  // namespace qtape
