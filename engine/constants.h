// Values of a graph that do not depend on inputs.
#pragma once

#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// By node: true if its value depends only on parameters, states and constants.
std::vector<bool> constant_nodes(const Graph& graph);
/// Appends the nodes that were added to the graph since.
void extend_constant(const Graph& graph, std::vector<bool>& constant);

}  // namespace qtape
