#include "qtape/ops/erf.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Erf>;

}  // namespace qtape
