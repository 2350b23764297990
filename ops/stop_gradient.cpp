#include "qtape/ops/stop_gradient.h"

#include "qtape/ops/families/copy.h"

namespace qtape {

static_assert(Compute<StopGradient>);

Kernel StopGradient::forward(const Binding& b) const { return view_forward(b); }

}  // namespace qtape
