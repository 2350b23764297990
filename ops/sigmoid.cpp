#include "qtape/ops/sigmoid.h"

#include "qtape/ops/core/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Sigmoid>;

}  // namespace qtape
