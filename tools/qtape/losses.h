// Where training of a saved model can start from.
#pragma once

#include <vector>

#include "qtape/engine/graph.h"

namespace qtape::tool {

/// The outputs that gradients can start at: scalars that parameters lead to.
std::vector<NodeId> losses(const Graph& graph);

}  // namespace qtape::tool
