#include "qtape/ops/round.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Round>;

}  // namespace qtape
