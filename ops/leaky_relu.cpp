#include "qtape/ops/leaky_relu.h"

#include "qtape/ops/core/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<LeakyRelu>;

}  // namespace qtape
