#include "qtape/ops/add.h"

#include "qtape/ops/families/broadcast_kernels.h"

namespace qtape {

template struct Broadcast<Add>;
static_assert(Compute<Add>);

}  // namespace qtape
