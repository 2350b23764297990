#include "qtape/ops/abs.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Abs>;

}  // namespace qtape
