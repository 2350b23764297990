#include "qtape/ops/exp.h"

#include "qtape/ops/core/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Exp>;

}  // namespace qtape
