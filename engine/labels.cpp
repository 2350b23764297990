#include "qtape/engine/labels.h"

#include <algorithm>
#include <vector>

namespace qtape {

std::string unused_label(const Graph& graph, const std::string& label,
                         std::string_view suffix) {
  return unused_label(label, [&](const std::string& each) {
    return graph.find(each + std::string(suffix)).has_value();
  });
}

std::string value_label(std::string_view label) {
  constexpr std::string_view ending = ".quantized";
  return label.ends_with(ending) ? std::string(label.substr(0, label.size() - ending.size()))
                                 : std::string();
}

namespace {

/// True for activations that integers compute with the layer before them, under its label.
bool is_fused(const Op& op) {
  return std::holds_alternative<Relu>(op) || std::holds_alternative<Relu6>(op) ||
         std::holds_alternative<Clamp>(op);
}

/// Returns the node whose label names an answer: the answer, the value that it quantizes, or
/// the layer of an activation without a label.
NodeId named_node(const Graph& graph, NodeId answer) {
  const auto operand = [&](NodeId id) { return graph[id].operands[0]; };
  const std::string value = value_label(graph[answer].label);
  const bool rounds = !value.empty() && !graph[answer].operands.empty();
  NodeId id = rounds && graph[operand(answer)].label == value ? operand(answer) : answer;
  while (graph[id].label.empty() && is_fused(graph[id].op)) id = operand(id);
  // Inputs, parameters and quantized values have names of their own.
  const bool layer = !graph[id].operands.empty() && value_label(graph[id].label).empty();
  return rounds || layer ? id : answer;
}

}  // namespace

std::string answer_name(const Graph& graph, NodeId answer) {
  const NodeId named = named_node(graph, answer);
  if (named == answer || graph[named].label.empty()) return graph.name(answer);
  const auto answers = graph.answers();
  const bool unique = std::ranges::none_of(
      answers, [&](NodeId each) { return each != answer && named_node(graph, each) == named; });
  return unique ? graph[named].label : graph.name(answer);
}

namespace {

/// Returns the label of the nearest labelled node along operands 0; empty if there is none.
std::string nearest_label(const Graph& graph, NodeId id) {
  while (graph[id].label.empty() && !graph[id].operands.empty()) id = graph[id].operands[0];
  return graph[id].label;
}

}  // namespace

std::string name_near(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  if (!node.label.empty()) return node.label;
  const std::string label = nearest_label(graph, id), op(name_of(node.op));
  return label.empty() ? op : op + " after " + label;
}

std::string label_near(const Graph& graph, NodeId id) {
  if (!graph[id].label.empty()) return graph[id].label;
  const std::string label = nearest_label(graph, id);
  return label.empty() ? "value" : label + ".output";
}

}  // namespace qtape
