#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/plan.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {
namespace {

void print_quantizer(const Model& model, NodeId id) {
  const Node& node = model.graph[id];
  const auto& op = std::get<FakeQuantize>(node.op);
  const CodeLimits limits = op.limits();
  const std::string mode =
      std::visit([](const auto& each) { return std::string(each.name); }, op.scale_mode);
  std::string scales = "from each batch";
  if (node.operands.size() > 1) {
    const auto values = qparams(model.parameters, model.graph[node.operands[1]].label);
    const auto [low, high] = std::ranges::minmax(values);
    scales = high == 0 ? "not observed yet"
             : values.size() == 1
                 ? fmt::format("{}", values[0])
                 : fmt::format("{} to {}, {} channels", low, high, values.size());
  }
  fmt::print("  {:<24} {} bits, codes {}..{}, {}, {}, scale {}\n",
             node.label.empty() ? fmt::format("%{}", id.index) : node.label, op.bits,
             limits.q_min, limits.q_max, mode, to_string_view(op.ste), scales);
}

void print_memory(const Model& model) {
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;
  for (const ParameterEntry& entry : model.parameters.entries()) {
    (entry.trainable() ? parameter_bytes : state_bytes) += entry.type.bytes();
  }
  const auto outputs = model.graph.outputs();
  const Plan memory = plan(model.graph, {.outputs = {outputs.begin(), outputs.end()}});
  fmt::print("parameters  {} elements, {} bytes\n", model.parameters.trainable_elements(),
             parameter_bytes);
  fmt::print("states      {} bytes\n", state_bytes);
  fmt::print("activations {} bytes for inference at the stored batch extent\n",
             memory.arena_bytes);
  for (const auto& [name, section] : model.sections) {
    fmt::print("section     {}: {}\n", name, section.kind);
  }
}

}  // namespace

void inspect(const std::string& path) {
  const Model model = load_model(path);
  fmt::print("{}", to_string(model.graph));
  const auto found = quantizers(model.graph);
  fmt::print("\nquantizers{}\n", found.empty() ? "  none" : "");
  for (NodeId id : found) print_quantizer(model, id);
  fmt::print("\n");
  print_memory(model);
}

}  // namespace qtape::tool
