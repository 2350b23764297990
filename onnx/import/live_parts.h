// The parts of an ONNX graph that its outputs need; the rest is not read.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "qtape/onnx/onnx_node.h"

namespace qtape {

struct LiveParts {
  std::vector<int> nodes;       ///< by index, in order
  std::set<std::string> names;  ///< of inputs, tensors and values
};

/// Adds the names of the values that the branches of a node read and give.
inline void add_names_of_branches(const onnx::NodeProto& node, std::set<std::string>& names) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.type() != onnx::AttributeProto::GRAPH) continue;
    for (const auto& output : attribute.g().output()) names.insert(output.name());
    for (const onnx::NodeProto& inner : attribute.g().node()) {
      names.insert(inner.input().begin(), inner.input().end());
      names.insert(inner.output().begin(), inner.output().end());
      add_names_of_branches(inner, names);
    }
  }
}

inline LiveParts live_parts(const onnx::GraphProto& graph) {
  LiveParts live;
  for (const auto& output : graph.output()) live.names.insert(output.name());
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const onnx::NodeProto& node = graph.node(i);
    bool needed = false;
    for (const std::string& each : node.output()) {
      needed = needed || (!each.empty() && live.names.contains(each));
    }
    if (!needed) continue;
    live.nodes.push_back(i);
    for (const std::string& each : node.input()) {
      if (!each.empty()) live.names.insert(each);
    }
    add_names_of_branches(node, live.names);
  }
  live.names.erase("");
  std::ranges::reverse(live.nodes);
  return live;
}

}  // namespace qtape
