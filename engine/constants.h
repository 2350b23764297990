// Values of a graph that do not depend on inputs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// By node: true if its value depends only on parameters, states and constants.
std::vector<bool> constant_nodes(const Graph& graph);
/// Appends the nodes that were added to the graph since.
void extend_constant(const Graph& graph, std::vector<bool>& constant);

/// Returns the upper bound of the values that leave out their elements in a mask that is added
/// to scores; nullopt for values that are no mask. It is -5,000 if all others are biases
/// within -1,000 and 1,000, or -100 if all others are 0 and those that leave out are equal.
std::optional<float> mask_bound(std::span<const float> values);

}  // namespace qtape
