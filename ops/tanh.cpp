#include "qtape/ops/tanh.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Tanh>;

}  // namespace qtape
