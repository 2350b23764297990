#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/deploy/any_file.h"
#include "qtape/deploy/checks.h"
#include "qtape/engine/plan.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/program_plan.h"
#include "qtape/model/model.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {
namespace {

std::string scales_text(const std::vector<QParams<double>>& qparams) {
  const auto [low, high] = std::ranges::minmax(qparams, {}, &QParams<double>::scale);
  if (qparams.size() > 1) {
    return fmt::format("{} to {}, {} channels", low.scale, high.scale, qparams.size());
  }
  if (low.zero_point == 0) return fmt::format("{}", low.scale);
  return fmt::format("{}, zero point {}", low.scale, low.zero_point);
}

std::string scales_text(const SavedModel& model, NodeId id) {
  const auto found = qparams(model.graph, model.parameters, id);
  for (size_t c = 0; c < found.size(); ++c) {
    if (found[c].scale > 0) return scales_text(found);
    const std::string missing =
        missing_scale(model.graph, model.parameters, id, static_cast<int64_t>(c));
    if (missing != never_observed) return fmt::format("none in channel {}, {}", c, missing);
  }
  return found.empty() ? "from each batch" : "not observed yet";
}

void print_quantizer(const SavedModel& model, NodeId id) {
  const Node& node = model.graph[id];
  const Grid grid = grid_of(model.graph, id);
  fmt::print("  {:<24} {}, codes {}..{}, {}, scale {}\n", printable(model.graph.name(id)),
             name_of(node.op), grid.limits.q_min, grid.limits.q_max,
             to_string_view(grid.scheme), scales_text(model, id));
}

void print_arena(int64_t bytes, int64_t live, std::string_view what) {
  fmt::print("activations {} bytes for {} at the stored batch extent; {} are in use at once\n",
             bytes, what, live);
}

void print_arena(const Plan& memory, std::string_view what) {
  print_arena(memory.arena_bytes, largest_live_set(memory.buffers), what);
}

void print_memory(const SavedModel& model) {
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;
  for (const ParameterEntry& entry : model.parameters.entries()) {
    (entry.trainable() ? parameter_bytes : state_bytes) += entry.type.bytes();
  }
  const auto outputs = model.graph.outputs();
  fmt::print("parameters  {} elements, {} bytes\n", model.parameters.trainable_elements(),
             parameter_bytes);
  fmt::print("states      {} bytes\n", state_bytes);
  PlanOptions options{.outputs = {outputs.begin(), outputs.end()}};
  print_arena(plan(model.graph, options), "inference");
  options.roots = losses(model.graph);
  if (!options.roots.empty()) print_arena(plan(model.graph, options), "training");
  for (const auto& [name, section] : model.sections) {
    fmt::print("section     {}: {}\n", printable(name), printable(section.kind));
  }
}

void inspect(const SavedModel& model) {
  fmt::print("{}", to_string(model.graph));
  const auto found = quantizers(model.graph);
  fmt::print("\nquantizers{}\n", found.empty() ? "  none" : "");
  for (NodeId id : found) print_quantizer(model, id);
  fmt::print("\n");
  print_memory(model);
}

void inspect(const IntegerProgram& program) {
  int64_t weights = 0;
  int64_t bytes = 0;
  for (const IntegerNode& node : program.nodes()) {
    const QuantizedWeights* own = weights_of(node.op);
    if (own == nullptr) continue;
    weights += own->shape.elements();
    for (const Tensor* each : {&own->codes, &own->scales, &own->bias})
      bytes += each->type.bytes();
  }
  fmt::print("{}\nweights     {}, with their scales and biases in {} bytes\n",
             to_string(program), weights, bytes);
  const ProgramPlan memory = plan_program(program, KeptValues::Outputs);
  print_arena(memory.arena_bytes, largest_live_set(memory.buffers), "inference");
}

}  // namespace

void inspect(const std::string& path) {
  std::visit([](const auto& file) { inspect(file); }, load_any(path, NanValues::Keep));
}

}  // namespace qtape::tool
