#include "qtape/ops/sin.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Sin>;

}  // namespace qtape
