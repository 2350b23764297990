#include "qtape/onnx/import/named_nodes.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "qtape/engine/labels.h"
#include "qtape/onnx/attributes.h"

namespace qtape {
namespace {

/// Returns the name that ONNX Runtime gives the values of codes.
std::string name_of_values(const std::string& codes) {
  constexpr std::string_view ending = "_quantized";
  const bool ends = codes.ends_with(ending);
  return codes.substr(0, codes.size() - (ends ? ending.size() : 0)) +
         "_DequantizeLinear_Output";
}

}  // namespace

NamedNodes::NamedNodes(const onnx::GraphProto& graph) {
  for (const auto& each : graph.initializer()) taken_.insert(each.name());
  for (const auto& each : graph.input()) taken_.insert(each.name());
  for (const onnx::NodeProto& node : graph.node()) {
    taken_.insert(node.output().begin(), node.output().end());
  }
}

std::string NamedNodes::free_name(const std::string& wanted) {
  return unused_label(wanted,
                      [&](const std::string& name) { return !taken_.insert(name).second; });
}

onnx::NodeProto& NamedNodes::add(const onnx::NodeProto& node) {
  return nodes_.emplace_back(node);
}

onnx::NodeProto& NamedNodes::add(const onnx::NodeProto& of, const std::string& type,
                                 const std::vector<std::string>& inputs,
                                 const std::string& output) {
  onnx::NodeProto& node = nodes_.emplace_back();
  node.set_op_type(type);
  node.set_name(of.name());
  for (const std::string& each : inputs) node.add_input(each);
  node.add_output(output);
  return node;
}

std::string NamedNodes::dequantized(const onnx::NodeProto& of,
                                    const std::array<std::string, 3>& operand, int64_t axis) {
  std::vector<std::string> key(operand.begin(), operand.end());
  key.push_back(fmt::format("{}", axis));
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  std::vector<std::string> inputs(operand.begin(), operand.end());
  if (inputs.back().empty()) inputs.pop_back();
  const std::string values = free_name(name_of_values(operand[0]));
  set_attribute(add(of, "DequantizeLinear", inputs, values), "axis", axis);
  return known_[std::move(key)] = values;
}

std::string NamedNodes::dequantized_bias(const onnx::NodeProto& of, const std::string& bias,
                                         const std::string& x_scale,
                                         const std::string& w_scale) {
  const std::string scale = free_name(bias + "_scale");
  add(of, "Mul", {x_scale, w_scale}, scale);
  return dequantized(of, {bias, scale, ""}, 0);
}

void NamedNodes::replace_those_of(onnx::GraphProto& graph) {
  graph.clear_node();
  for (onnx::NodeProto& each : nodes_) *graph.add_node() = std::move(each);
  nodes_.clear();
}

}  // namespace qtape
