#include "qtape/model/passes/weighted_layers.h"

#include <set>
#include <string_view>

#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/integer/rules/rule_table.h"

namespace qtape {
namespace {

/// Returns the nodes from which a node is computed, including itself, in graph order.
std::set<NodeId> sources_of(const Graph& graph, NodeId id) {
  std::set<NodeId> found = {id};
  std::vector<NodeId> open = {id};
  while (!open.empty()) {
    const NodeId next = open.back();
    open.pop_back();
    for (NodeId operand : graph[next].operands) {
      if (found.insert(operand).second) open.push_back(operand);
    }
  }
  return found;
}

/// Returns the label of the parameter of a weight: of those from which it is computed, the
/// first with the same number of elements, which scaling by channel preserves, otherwise the
/// largest.
std::string label_of(const Graph& graph, NodeId weight) {
  const int64_t elements = graph[weight].type.elements();
  const Node* found = nullptr;
  for (NodeId id : sources_of(graph, weight)) {
    const Node& node = graph[id];
    if (!std::holds_alternative<Parameter>(node.op)) continue;
    if (node.type.elements() == elements) return node.label;
    if (found == nullptr || node.type.elements() > found->type.elements()) found = &node;
  }
  return found != nullptr ? found->label : label_near(graph, weight);
}

}  // namespace

std::string WeightedLayer::stem() const {
  constexpr std::string_view suffix = ".weight";
  return label.ends_with(suffix) ? label.substr(0, label.size() - suffix.size()) : label;
}

std::vector<WeightedLayer> weighted_layers(const Graph& graph) {
  const std::vector<bool> constant = constant_nodes(graph);
  std::vector<WeightedLayer> found;
  for (const NodeId id : ids(graph)) {
    const auto weight = constant_weights(graph, constant, id);
    if (!weight || constant[at(id)] || preceding_quantizer(graph, *weight)) continue;
    found.push_back({id, *weight, label_of(graph, *weight)});
  }
  return found;
}

}  // namespace qtape
