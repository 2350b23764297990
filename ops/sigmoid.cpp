#include "qtape/ops/sigmoid.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Sigmoid>;

}  // namespace qtape
