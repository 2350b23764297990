#include "qtape/ops/exp.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Exp>;

}  // namespace qtape
