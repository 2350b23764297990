#include "qtape/ops/sqrt.h"

#include "qtape/ops/core/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Sqrt>;

}  // namespace qtape
