#include "qtape/ops/cos.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Cos>;

}  // namespace qtape
