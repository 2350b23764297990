#include "qtape/ops/atan.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Atan>;

}  // namespace qtape
