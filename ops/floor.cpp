#include "qtape/ops/floor.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Floor>;

}  // namespace qtape
