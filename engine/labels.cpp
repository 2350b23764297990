#include "qtape/engine/labels.h"

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

std::string name_near(const Graph& graph, NodeId id) {
  if (!graph[id].label.empty()) return graph[id].label;
  const std::string op(name_of(graph[id].op));
  while (graph[id].label.empty()) {
    if (graph[id].operands.empty()) return op;
    id = graph[id].operands[0];
  }
  return op + " after " + graph[id].label;
}

std::string label_near(const Graph& graph, NodeId id) {
  if (!graph[id].label.empty()) return graph[id].label;
  while (graph[id].label.empty()) {
    if (graph[id].operands.empty()) return "value";
    id = graph[id].operands[0];
  }
  return graph[id].label + ".output";
}

}  // namespace qtape
