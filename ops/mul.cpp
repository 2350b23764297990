#include "qtape/ops/mul.h"

#include "qtape/ops/families/broadcast_kernels.h"

namespace qtape {

template struct Broadcast<Mul>;
static_assert(Compute<Mul>);

}  // namespace qtape
