#include "qtape/ops/mish.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Mish>;

}  // namespace qtape
