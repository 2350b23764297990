#include "qtape/model/passes/last_softmax.h"

#include <algorithm>
#include <map>
#include <set>

#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/rule_table.h"

namespace qtape {
namespace {

bool is_softmax(const Op& op) { return is_any<Softmax, LogSoftmax>(op); }

/// True for nodes that move the scores of classes, or round them.
bool keeps_order(const Op& op) {
  return is_any<Reshape, Flatten, Transpose, Cast>(op) || is_quantizer(op);
}

/// Returns the axis of a Softmax or LogSoftmax.
int softmax_axis(const Node& node) {
  const auto* softmax = std::get_if<Softmax>(&node.op);
  const int axis = softmax != nullptr ? softmax->axis : std::get<LogSoftmax>(node.op).axis;
  return resolve_axis(axis, node.type.shape);
}

/// True for an ArgMax along the axis of the Softmax or LogSoftmax that it reads.
bool finds_class(const Graph& graph, NodeId id) {
  const auto* index = std::get_if<ArgMax>(&graph[id].op);
  if (index == nullptr) return false;
  const Node& x = graph[graph[id].operands[0]];
  return is_softmax(x.op) && softmax_axis(x) == resolve_axis(index->axis, x.type.shape);
}

/// Elements that a Softmax normalizes together, in a value that moves its results.
struct Group {
  int64_t elements = 1;
  int64_t distance = 1;  ///< from one to the next
};

Group group_of(const Shape& shape, int axis) {
  Group group{.elements = shape[axis]};
  for (int i = axis + 1; i < shape.rank(); ++i) group.distance *= shape[i];
  return group;
}

/// Returns the axis along which the elements of a group lie, if they are all of it.
std::optional<int> axis_of(const Shape& shape, const Group& group) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const Group along = group_of(shape, axis);
    if (along.elements == group.elements && along.distance == group.distance) return axis;
  }
  return std::nullopt;
}

/// Returns the group in the result of a node that keeps the order of the elements of `x`, or
/// moves whole axes; nullopt if it tears the group apart.
std::optional<Group> moved(const Op& op, const Shape& x, const Shape& result,
                           const Group& group) {
  const auto* transpose = std::get_if<Transpose>(&op);
  if (transpose == nullptr) return group;
  const std::optional<int> axis = axis_of(x, group);
  if (!axis) return std::nullopt;
  for (int i = 0; i < result.rank(); ++i) {
    if (transpose->permutation[static_cast<size_t>(i)] == *axis) return group_of(result, i);
  }
  return std::nullopt;
}

/// True if the classes of an answer, which lie along its last axis of more than one element,
/// are a group: they have the same order before the Softmax and after it.
bool are_classes(const Shape& shape, const Group& group) {
  return group.distance == 1 && axis_of(shape, group).has_value();
}

/// A Softmax or LogSoftmax whose results a node moves, or of which it finds the largest.
struct Scores {
  NodeId softmax;
  std::optional<Group> group;  ///< none of an ArgMax, and of a group that is torn apart
  bool is_index = false;
};

/// Returns the scores that node `id` makes of those of its operand; nullopt if it computes.
std::optional<Scores> after(const Graph& graph, NodeId id, const Scores& scores) {
  if (finds_class(graph, id)) return Scores{scores.softmax, std::nullopt, true};
  const Node& node = graph[id];
  if (!keeps_order(node.op)) return std::nullopt;
  if (!scores.group) return scores;
  const Shape& x = graph[node.operands[0]].type.shape;
  return Scores{scores.softmax, moved(node.op, x, node.type.shape, *scores.group)};
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
  std::map<NodeId, Scores> scores;  // by node that only moves them, or finds the largest
  std::set<NodeId> last;
  for (const NodeId id : ids(graph)) {
    if (!needed[at(id)]) continue;
    const Node& node = graph[id];
    for (const NodeId operand : node.operands) {
      const auto found = scores.find(operand);
      if (found == scores.end()) continue;
      if (const auto made = after(graph, id, found->second))
        scores.emplace(id, *made);
      else
        last.erase(found->second.softmax);
    }
    if (!is_softmax(node.op)) continue;
    const Scores own{id, group_of(node.type.shape, softmax_axis(node))};
    if (scores.emplace(id, own).second) last.insert(id);
  }
  for (const NodeId answer : answers) {
    const auto found = scores.find(answer);
    if (found == scores.end() || found->second.is_index) continue;
    const std::optional<Group>& group = found->second.group;
    if (!group || !are_classes(graph[answer].type.shape, *group)) {
      last.erase(found->second.softmax);
    }
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
  const Node& node = graph[id];
  const bool classes =
      is_softmax(node.op) &&
      are_classes(node.type.shape, group_of(node.type.shape, softmax_axis(node)));
  return classes ? node.operands[0] : answer;
}

std::optional<NodeId> last_sigmoid(const Graph& graph, NodeId answer) {
  NodeId id = answer;
  while (is_view(graph[id].op) || is_quantizer(graph[id].op)) id = graph[id].operands[0];
  if (!std::holds_alternative<Sigmoid>(graph[id].op)) return std::nullopt;
  return id;
}

NodeId before_sigmoid(const Graph& graph, NodeId answer) {
  const Shape& shape = graph[answer].type.shape;
  const auto sigmoid = last_sigmoid(graph, answer);
  if (!sigmoid || shape.elements() != shape[0]) return answer;
  const NodeId logit = graph[*sigmoid].operands[0];
  return graph[logit].type.shape == shape ? logit : answer;
}

}  // namespace qtape
