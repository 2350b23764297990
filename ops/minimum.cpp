#include "qtape/ops/minimum.h"

#include "qtape/ops/families/broadcast_kernels.h"

namespace qtape {

template struct Broadcast<Minimum>;
static_assert(Compute<Minimum>);

}  // namespace qtape
