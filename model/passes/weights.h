// Values of a model as named tensors, for exchange with other programs.
#pragma once

#include <cstdint>

#include "qtape/engine/parameters.h"
#include "qtape/io/arrays/named_tensors.h"

namespace qtape {

/// Returns all parameters and states, in graph order.
NamedTensors named_values(const Parameters& parameters);

/// Replaces the values named in `values` and keeps the others; returns the number of replaced
/// values. Throws GraphError, changing nothing, for a name that is not a parameter or state
/// (the message states the nearest name), for a duplicate name, and for another dtype or shape.
int64_t set_values(Parameters& parameters, const NamedTensors& values);

}  // namespace qtape
