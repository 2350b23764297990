#include "qtape/engine/constants.h"

#include <algorithm>
#include <cmath>

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

std::optional<float> mask_bound(std::span<const float> values) {
  if (values.empty()) return std::nullopt;
  const float least = *std::ranges::min_element(values);
  const bool two = std::ranges::all_of(values, [&](float v) { return v == 0 || v == least; });
  const float bound = two ? negligible_score : far_score;
  const auto counts = [](float each) { return std::fabs(each) <= 1e3f; };
  const auto known = [&](float each) { return each <= bound || counts(each); };
  const bool both =
      least <= bound && std::ranges::any_of(values, [&](float each) { return each > bound; });
  if (!both || !std::ranges::all_of(values, known)) return std::nullopt;
  return bound;
}

}  // namespace qtape
