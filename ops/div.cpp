#include "qtape/ops/div.h"

#include "qtape/ops/families/broadcast_kernels.h"

namespace qtape {

template struct Broadcast<Div>;
static_assert(Compute<Div>);

}  // namespace qtape
