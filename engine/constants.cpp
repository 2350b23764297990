#include "qtape/engine/constants.h"

#include <algorithm>

namespace qtape {

std::vector<bool> constant_nodes(const Graph& graph) {
  std::vector<bool> constant;
  for (const Node& node : graph.nodes()) {
    const auto known = [&](NodeId id) -> bool { return constant[at(id)]; };
    constant.push_back(!std::holds_alternative<Input>(node.op) &&
                       std::ranges::all_of(node.operands, known));
  }
  return constant;
}

}  // namespace qtape
