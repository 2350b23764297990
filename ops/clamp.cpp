#include "qtape/ops/clamp.h"

#include "qtape/ops/core/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Clamp>;

}  // namespace qtape
