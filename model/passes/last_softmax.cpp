#include "qtape/model/passes/last_softmax.h"

#include <algorithm>

#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/analysis.h"

namespace qtape {
namespace {

template <class... X>
bool is_any(const Op& op) {
  return (std::holds_alternative<X>(op) || ...);
}

bool is_softmax(const Op& op) { return is_any<Softmax, LogSoftmax>(op); }

/// Returns how often the answers, and nodes that they need, read each node.
std::vector<int> reads(const Graph& graph, const std::vector<NodeId>& answers) {
  const std::vector<bool> needed = needed_for(graph, answers);
  std::vector<int> counts(static_cast<size_t>(graph.size()), 0);
  for (const NodeId id : ids(graph)) {
    if (!needed[at(id)]) continue;
    for (const NodeId operand : graph[id].operands) ++counts[at(operand)];
  }
  for (const NodeId id : answers) ++counts[at(id)];
  return counts;
}

}  // namespace

std::vector<NodeId> last_softmaxes(const Graph& graph) {
  const std::vector<NodeId> answers = graph.answers();
  const std::vector<int> counts = reads(graph, answers);
  std::vector<NodeId> found;
  for (NodeId id : answers) {
    while (counts[at(id)] == 1 && is_any<Reshape, Flatten, Transpose>(graph[id].op)) {
      id = graph[id].operands[0];
    }
    if (counts[at(id)] == 1 && is_softmax(graph[id].op)) found.push_back(id);
  }
  return found;
}

Graph without_last_softmaxes(const Graph& graph) {
  const std::vector<NodeId> last = last_softmaxes(graph);
  if (last.empty()) return graph;
  Graph answering = graph;
  answering.set_outputs(graph.answers(), {});
  Graph result;
  rewrite(answering, result, [&](NodeId id, std::span<const NodeId> operands) {
    if (std::ranges::find(last, id) != last.end()) return operands[0];
    return result.add(graph[id].op, operands, graph[id].label);
  });
  return result;
}

NodeId before_softmax(const Graph& graph, NodeId answer) {
  NodeId id = answer;
  while (is_any<Reshape, Flatten>(graph[id].op)) {
    const NodeId operand = graph[id].operands[0];
    if (graph[operand].type.shape != graph[id].type.shape) return answer;
    id = operand;
  }
  return is_softmax(graph[id].op) ? graph[id].operands[0] : answer;
}

}  // namespace qtape
