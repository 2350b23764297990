#include "qtape/ops/softplus.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Softplus>;

}  // namespace qtape
