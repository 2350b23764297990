#include "qtape/ops/gelu.h"

#include "qtape/ops/core/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Gelu>;

}  // namespace qtape
