// Values of a model as tensors with names: to other programs and from them.
#pragma once

#include <cstdint>

#include "qtape/arrays/named_tensors.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// All parameters and states, in graph order.
NamedTensors named_values(const Parameters& parameters);

/// Replaces the values that `values` name and keeps the others; how many are replaced. Throws
/// GraphError, which changes nothing, for a name that is no parameter or state, with the
/// nearest that is one, for a name twice, and for another dtype or shape.
int64_t set_values(Parameters& parameters, const NamedTensors& values);

}  // namespace qtape
