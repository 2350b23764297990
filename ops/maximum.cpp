#include "qtape/ops/maximum.h"

#include "qtape/ops/families/broadcast_kernels.h"

namespace qtape {

template struct Broadcast<Maximum>;
static_assert(Compute<Maximum>);

}  // namespace qtape
