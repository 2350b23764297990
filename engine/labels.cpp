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

std::string answer_name(const Graph& graph, NodeId answer) {
  const std::string value = value_label(graph[answer].label);
  const std::vector<NodeId>& operands = graph[answer].operands;
  if (value.empty() || operands.empty() || graph[operands[0]].label != value) {
    return graph.name(answer);
  }
  const auto answers = graph.answers();
  const bool both = std::ranges::find(answers, operands[0]) != answers.end();
  return both ? graph.name(answer) : value;
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
