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
  }
  std::ranges::reverse(live.nodes);
  return live;
}

}  // namespace qtape
