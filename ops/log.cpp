#include "qtape/ops/log.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

template struct Elementwise<Log>;

}  // namespace qtape
