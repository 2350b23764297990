#include "qtape/model/passes/last_softmax.h"

#include <algorithm>
#include <map>
#include <set>

#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/integer/rules/rule_table.h"

namespace qtape {
namespace {

bool is_softmax(const Op& op) { return is_any<Softmax, LogSoftmax>(op); }

/// True for nodes that move the scores of classes, or round them.
bool keeps_order(const Op& op) {
  return is_any<Reshape, Flatten, Transpose, Cast>(op) || is_quantizer(op);
}

/// True for an ArgMax along the axis of the Softmax or LogSoftmax that it reads.
bool finds_class(const Graph& graph, NodeId id) {
  const auto* index = std::get_if<ArgMax>(&graph[id].op);
  if (index == nullptr) return false;
  const Node& x = graph[graph[id].operands[0]];
  const auto* softmax = std::get_if<Softmax>(&x.op);
  const auto* logs = std::get_if<LogSoftmax>(&x.op);
  if (softmax == nullptr && logs == nullptr) return false;
  return resolve_axis(softmax != nullptr ? softmax->axis : logs->axis, x.type.shape) ==
         resolve_axis(index->axis, x.type.shape);
}

}  // namespace

NodeId scores_of(const Graph& graph, NodeId answer) {
  NodeId id = answer;
  while (keeps_order(graph[id].op)) id = graph[id].operands[0];
  return finds_class(graph, id) ? graph[id].operands[0] : id;
}

std::vector<NodeId> last_softmaxes(const Graph& graph) {
  const std::vector<NodeId> answers = graph.answers();
  const std::vector<bool> needed = needed_for(graph, answers);
  std::map<NodeId, NodeId> scores;  // by node that only moves them, or finds the largest
  std::set<NodeId> last;
  for (const NodeId id : ids(graph)) {
    if (!needed[at(id)]) continue;
    const Op& op = graph[id].op;
    for (const NodeId operand : graph[id].operands) {
      const auto found = scores.find(operand);
      if (found == scores.end()) continue;
      const bool moves = keeps_order(op) || finds_class(graph, id);
      if (!moves) last.erase(found->second);
      if (moves) scores.emplace(id, found->second);
    }
    if (is_softmax(op) && scores.emplace(id, id).second) last.insert(id);
  }
  return {last.begin(), last.end()};
}

Graph without_last_softmaxes(const Graph& graph) {
  const std::vector<NodeId> last = last_softmaxes(graph);
  if (last.empty()) return graph;
  const auto is_last = [&](NodeId id) { return std::ranges::find(last, id) != last.end(); };
  // Scales of probabilities do not fit the scores.
  const auto left_out = [&](NodeId id) {
    if (!is_quantizer(graph[id].op)) return is_last(id);
    while (keeps_order(graph[id].op)) id = graph[id].operands[0];
    return is_last(id);
  };
  Graph answering = graph;
  answering.set_outputs(graph.answers(), {});
  Graph result;
  rewrite(answering, result, [&](NodeId id, std::span<const NodeId> operands) {
    if (left_out(id)) return operands[0];
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

std::optional<NodeId> last_sigmoid(const Graph& graph, NodeId answer) {
  NodeId id = answer;
  while (is_view(graph[id].op) || is_quantizer(graph[id].op)) id = graph[id].operands[0];
  if (!std::holds_alternative<Sigmoid>(graph[id].op)) return std::nullopt;
  return id;
}

}  // namespace qtape
