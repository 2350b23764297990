#include "qtape/ops/sub.h"

#include "qtape/ops/families/broadcast_kernels.h"

namespace qtape {

template struct Broadcast<Sub>;
static_assert(Compute<Sub>);

}  // namespace qtape
