// Which values of a graph are the same for all inputs.
#pragma once

#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// By node: whether its value depends on no input, but on parameters, states and constants
/// alone.
std::vector<bool> constant_nodes(const Graph& graph);

}  // namespace qtape
