#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/deploy/checks.h"
#include "qtape/engine/plan.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/program_plan.h"
#include "qtape/integer/program/session.h"
#include "qtape/model/model.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

namespace {

struct QuantizerState {
  std::string label;
  std::string op;
  int64_t q_min = 0;
  int64_t q_max = 0;
  Scheme scheme = Scheme::Symmetric;
  int64_t channels = 0;
  std::optional<double> smallest_scale = {};
  std::optional<double> largest_scale = {};
  std::optional<double> zero_point = {};
  std::optional<std::string> unknown = {};

  static constexpr auto fields() {
    using Q = QuantizerState;
    return std::tuple{
        field("label", &Q::label, "of the node"),
        field("op", &Q::op, "name of the op"),
        field("q_min", &Q::q_min, "smallest code"),
        field("q_max", &Q::q_max, "largest code"),
        field("scheme", &Q::scheme, "Symmetric or Affine"),
        field("channels", &Q::channels, "number of scales; 0 if they come from each batch"),
        field("smallest_scale", &Q::smallest_scale, "null if there is none"),
        field("largest_scale", &Q::largest_scale, "null if there is none"),
        field("zero_point", &Q::zero_point, "of a single channel; null for several"),
        field("unknown", &Q::unknown, "reason why there is no scale, otherwise null")};
  }
};

struct ArenaReport {
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;

  static constexpr auto fields() {
    using A = ArenaReport;
    return std::tuple{field("arena_bytes", &A::arena_bytes, "of all activations"),
                      field("live_bytes", &A::live_bytes, "most bytes in use at once")};
  }
};

struct SectionReport {
  std::string name;
  std::string kind;

  static constexpr auto fields() {
    using S = SectionReport;
    return std::tuple{field("name", &S::name, "its key"), field("kind", &S::kind, "its kind")};
  }
};

struct ModelReport {
  std::string file = "model";
  std::string text;  // human-readable list of the nodes
  std::vector<NodeReport> nodes;
  std::vector<QuantizerState> quantizers;
  int64_t parameters = 0;
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;
  ArenaReport inference;
  std::optional<ArenaReport> training = {};
  std::vector<SectionReport> sections;

  static constexpr auto fields() {
    using R = ModelReport;
    return std::tuple{field("file", &R::file, "content of the file"),
                      field("nodes", &R::nodes, "in order"),
                      field("quantizers", &R::quantizers, "in order"),
                      field("parameters", &R::parameters, "trainable elements"),
                      field("parameter_bytes", &R::parameter_bytes, "of the parameters"),
                      field("state_bytes", &R::state_bytes, "of the states"),
                      field("inference", &R::inference, "memory of a pass"),
                      field("training", &R::training, "of a step; null without a loss"),
                      field("sections", &R::sections, "sections of a checkpoint")};
  }
};

/// An output of a program, and the meaning of its integers.
struct ProgramOutputReport {
  std::string label;
  DType dtype = DType::F32;
  int64_t zero_point = 0;
  std::vector<double> scales;

  static constexpr auto fields() {
    using R = ProgramOutputReport;
    return std::tuple{
        field("label", &R::label, "of the node"), field("dtype", &R::dtype, "of elements"),
        field("zero_point", &R::zero_point, "integer that represents 0"),
        field("scales", &R::scales,
              "of integers: one, or one for each index of the last axis; none of floats")};
  }
};

struct ProgramReport {
  std::string file = "integer program";
  std::string text;  // human-readable list of the nodes
  Requantization requantization = Requantization::FloatMultiply;
  std::vector<ProgramNodeReport> nodes;
  std::vector<ProgramOutputReport> outputs;
  int64_t weights = 0;
  int64_t weight_bytes = 0;
  ArenaReport inference;

  static constexpr auto fields() {
    using R = ProgramReport;
    return std::tuple{
        field("file", &R::file, "content of the file"),
        field("requantization", &R::requantization, "conversion of accumulators to codes"),
        field("nodes", &R::nodes, "in order"),
        field("outputs", &R::outputs, "in order"),
        field("weights", &R::weights, "elements"),
        field("weight_bytes", &R::weight_bytes, "with their scales and biases"),
        field("inference", &R::inference, "memory of a pass")};
  }
};

/// Sets the scales, or the reason why there are none.
void set_scales(QuantizerState& report, const SavedModel& model, NodeId id) {
  const auto found = qparams(model.graph, model.parameters, id);
  report.channels = static_cast<int64_t>(found.size());
  for (size_t c = 0; c < found.size(); ++c) {
    if (found[c].scale > 0) {
      const auto [low, high] = std::ranges::minmax(found, {}, &QParams<double>::scale);
      report.smallest_scale = low.scale;
      report.largest_scale = high.scale;
      if (found.size() == 1) report.zero_point = low.zero_point;
      return;
    }
    const std::string missing =
        missing_scale(model.graph, model.parameters, id, static_cast<int64_t>(c));
    if (missing != never_observed) {
      report.unknown = fmt::format("none in channel {}, {}", c, missing);
      return;
    }
  }
  report.unknown = found.empty() ? "from each batch" : "not observed yet";
}

QuantizerState quantizer_of(const SavedModel& model, NodeId id) {
  const Grid grid = grid_of(model.graph, id);
  QuantizerState report{.label = model.graph.name(id),
                        .op = std::string(name_of(model.graph[id].op)),
                        .q_min = grid.limits.q_min,
                        .q_max = grid.limits.q_max,
                        .scheme = grid.scheme};
  set_scales(report, model, id);
  return report;
}

ArenaReport arena_of(const Plan& memory) {
  return {memory.arena_bytes, largest_live_set(memory.buffers)};
}

ModelReport report_of(const SavedModel& model) {
  ModelReport report{.text = to_string(model.graph), .nodes = nodes_of(model.graph)};
  for (NodeId id : quantizers(model.graph)) {
    report.quantizers.push_back(quantizer_of(model, id));
  }
  for (const ParameterEntry& entry : model.parameters.entries()) {
    (entry.trainable() ? report.parameter_bytes : report.state_bytes) += entry.type.bytes();
  }
  report.parameters = model.parameters.trainable_elements();
  const auto outputs = model.graph.outputs();
  PlanOptions options{.outputs = {outputs.begin(), outputs.end()}};
  report.inference = arena_of(plan(model.graph, options));
  options.roots = model.graph.losses();
  if (!options.roots.empty()) report.training = arena_of(plan(model.graph, options));
  for (const auto& [name, section] : model.sections) {
    report.sections.push_back({name, section.kind});
  }
  return report;
}

ProgramReport report_of(const IntegerProgram& program) {
  ProgramReport report{.text = to_string(program),
                       .requantization = program.requantization(),
                       .nodes = nodes_of(program)};
  for (const IntegerNode& node : program.nodes()) {
    const QuantizedWeights* own = weights_of(node.op);
    if (own == nullptr) continue;
    report.weights += own->shape.elements();
    for (const Tensor* each : {&own->codes, &own->scales, &own->bias})
      report.weight_bytes += each->type.bytes();
  }
  for (ProgramNodeId id : program.outputs()) {
    const IntegerValue& v = program[id].value;
    report.outputs.push_back({program.name(id), v.type.dtype, v.zero_point, v.scales});
  }
  const ProgramPlan memory = plan_program(program, KeptValues::Outputs);
  report.inference = {memory.arena_bytes, largest_live_set(memory.buffers)};
  return report;
}

std::string scales_text(const QuantizerState& report) {
  if (report.unknown) return *report.unknown;
  if (report.channels > 1) {
    return fmt::format("{} to {}, {} channels", *report.smallest_scale, *report.largest_scale,
                       report.channels);
  }
  if (*report.zero_point == 0) return fmt::format("{}", *report.smallest_scale);
  return fmt::format("{}, zero point {}", *report.smallest_scale, *report.zero_point);
}

void print(const ArenaReport& arena, std::string_view what) {
  fmt::print("activations {} bytes for {} at the stored batch extent; {} are in use at once\n",
             arena.arena_bytes, what, arena.live_bytes);
}

void print(const ModelReport& report) {
  fmt::print("{}\nquantizers{}\n", report.text, report.quantizers.empty() ? "  none" : "");
  for (const QuantizerState& each : report.quantizers) {
    fmt::print("  {:<24} {}, codes {}..{}, {}, scale {}\n", printable(each.label), each.op,
               each.q_min, each.q_max, to_string_view(each.scheme), scales_text(each));
  }
  fmt::print("\nparameters  {} elements, {} bytes\n", report.parameters,
             report.parameter_bytes);
  fmt::print("states      {} bytes\n", report.state_bytes);
  print(report.inference, "inference");
  if (report.training) print(*report.training, "training");
  for (const SectionReport& section : report.sections) {
    fmt::print("section     {}: {}\n", printable(section.name), printable(section.kind));
  }
}

void print(const ProgramOutputReport& output) {
  fmt::print("output      {}: {}", printable(output.label), to_string_view(output.dtype));
  if (output.scales.size() == 1) {
    fmt::print(", value (q - {}) {}", output.zero_point, output.scales[0]);
  }
  if (output.scales.size() > 1) {
    fmt::print(", value q[i] scale[i] with the scales {}", fmt::join(output.scales, ", "));
  }
  fmt::print("\n");
}

void print(const ProgramReport& report) {
  fmt::print("{}\nweights     {}, with their scales and biases in {} bytes\n", report.text,
             report.weights, report.weight_bytes);
  for (const ProgramOutputReport& output : report.outputs) print(output);
  print(report.inference, "inference");
}

}  // namespace

/// Prints nodes, shapes, quantizers with their scales, and parameter and activation bytes; for
/// an integer program its nodes, certificates and weight bytes.
void inspect(const std::string& path, const std::string& json) {
  programs::OutputFiles files;
  files.reads({path});
  files.expect_text("--json", json);
  const AnyFile file = load_file(path, files, NanValues::Keep);
  std::visit(
      [&](const auto& content) {
        const auto report = report_of(content);
        print(report);
        write_report(files, json, report);
      },
      file);
  files.require_written();
}

Command add_inspect(CLI::App& app) {
  struct Options {
    std::string file;
    std::string json;
  };
  const auto o = std::make_shared<Options>();
  CLI::App& inspect = *app.add_subcommand("inspect", "Print nodes, quantizers and sizes");
  add_file(inspect, o->file);
  add_json(inspect, o->json);
  return {&inspect, [o] {
            qtape::tool::inspect(o->file, o->json);
            return 0;
          }};
}

}  // namespace qtape::tool
