#include "qtape/ops/signum.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Signum>;

}  // namespace qtape
