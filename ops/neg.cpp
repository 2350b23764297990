#include "qtape/ops/neg.h"

#include "qtape/ops/core/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Neg>;

}  // namespace qtape
