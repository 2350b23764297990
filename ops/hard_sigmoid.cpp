#include "qtape/ops/hard_sigmoid.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<HardSigmoid>;

}  // namespace qtape
