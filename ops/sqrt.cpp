#include "qtape/ops/sqrt.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Sqrt>;

}  // namespace qtape
