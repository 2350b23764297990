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

bool is_additive_mask(std::span<const float> values) {
  const auto masked = [](float each) { return each <= -1e4f; };
  return std::ranges::all_of(values, [&](float v) { return v == 0 || masked(v); }) &&
         std::ranges::any_of(values, masked) && !std::ranges::all_of(values, masked);
}

}  // namespace qtape
