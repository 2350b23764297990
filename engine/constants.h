// Values of a graph that do not depend on inputs.
#pragma once

#include <span>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// By node: true if its value depends only on parameters, states and constants.
std::vector<bool> constant_nodes(const Graph& graph);
/// Appends the nodes that were added to the graph since.
void extend_constant(const Graph& graph, std::vector<bool>& constant);

/// True for the values of a mask that is added to scores: each is 0 or at most -10,000, such as
/// -Inf, and both occur.
bool is_additive_mask(std::span<const float> values);

}  // namespace qtape
