#include "qtape/ops/neg.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Neg>;

}  // namespace qtape
