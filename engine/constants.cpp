#include "qtape/engine/constants.h"

#include <algorithm>

namespace qtape {

std::vector<bool> constant_nodes(const Graph& graph) {
  std::vector<bool> constant;
  extend_constant(graph, constant);
  return constant;
}

void extend_constant(const Graph& graph, std::vector<bool>& constant) {
  const auto known = [&](NodeId id) -> bool { return constant[at(id)]; };
  for (auto i = static_cast<int32_t>(constant.size()); i < graph.size(); ++i) {
    const Node& node = graph[NodeId{i}];
    constant.push_back(!std::holds_alternative<Input>(node.op) &&
                       std::ranges::all_of(node.operands, known));
  }
}

}  // namespace qtape
