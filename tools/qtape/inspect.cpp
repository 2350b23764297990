#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/plan.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {
namespace {

std::string scales_text(const std::vector<QParams<double>>& qparams) {
  if (qparams.empty()) return "from each batch";
  const auto [low, high] = std::ranges::minmax(qparams, {}, &QParams<double>::scale);
  if (high.scale == 0) return "not observed yet";
  if (qparams.size() > 1) {
    return fmt::format("{} to {}, {} channels", low.scale, high.scale, qparams.size());
  }
  if (low.zero_point == 0) return fmt::format("{}", low.scale);
  return fmt::format("{}, zero point {}", low.scale, low.zero_point);
}

void print_quantizer(const Model& model, NodeId id) {
  const Node& node = model.graph[id];
  const Grid grid = grid_of(model.graph, id);
  fmt::print("  {:<24} {}, codes {}..{}, {}, scale {}\n", model.graph.name(id),
             name_of(node.op), grid.limits.q_min, grid.limits.q_max,
             to_string_view(grid.scheme),
             scales_text(qparams(model.graph, model.parameters, id)));
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
