#include "qtape/ops/hard_swish.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<HardSwish>;

}  // namespace qtape
