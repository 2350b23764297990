#include "qtape/onnx/import/equal_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "qtape/onnx/import/graph_view.h"
#include "qtape/onnx/import/live_parts.h"

namespace qtape {
namespace {

// More axes than values have are refused later.
constexpr size_t max_axes = 8;

/// Returns a text that is equal for nodes that compute the same value.
std::string key_of(const OnnxGraphView& view, const onnx::NodeProto& node) {
  onnx::NodeProto plain;
  plain.set_op_type(node.op_type());
  *plain.mutable_attribute() = node.attribute();
  for (int k = 0; k < node.input_size(); ++k) {
    // Exporters write the axes of each node as a constant of its own.
    const auto axes =
        node.op_type() == "ReduceMean" && k == 1 ? view.integers(node.input(k)) : std::nullopt;
    plain.add_input(axes && axes->values.size() <= max_axes
                        ? fmt::format("axes {}", fmt::join(axes->values, " "))
                        : "value " + node.input(k));
  }
  return plain.SerializeAsString();
}

}  // namespace

void merge_equal_nodes(onnx::GraphProto& graph) {
  const OnnxGraphView view(graph);
  std::set<std::string> kept;
  for (const auto& output : graph.output()) kept.insert(output.name());
  for (const onnx::NodeProto& node : graph.node()) add_names_of_branches(node, kept);
  std::map<std::string, std::string> first;  // output, by key
  std::map<std::string, std::string> merged;
  std::vector<bool> removed;
  auto& nodes = *graph.mutable_node();
  for (onnx::NodeProto& node : nodes) {
    for (std::string& each : *node.mutable_input()) {
      if (const auto other = merged.find(each); other != merged.end()) each = other->second;
    }
    removed.push_back(false);
    const bool plain = (node.op_type() == "ReduceMean" || node.op_type() == "Sub") &&
                       node.domain().empty() && node.output_size() == 1;
    if (!plain || kept.contains(node.output(0))) continue;
    const auto [same, is_new] = first.try_emplace(key_of(view, node), node.output(0));
    if (is_new) continue;
    merged[node.output(0)] = same->second;
    removed.back() = true;
  }
  // The view finds nodes by index, so they move last.
  int left = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    if (!removed[static_cast<size_t>(i)]) nodes.SwapElements(left++, i);
  }
  nodes.DeleteSubrange(left, nodes.size() - left);
}

}  // namespace qtape
