#include "qtape/onnx/import.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "qtape/core/printable.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/recipe.h"
#include "qtape/programs/output_files.h"
#include "qtape/tflite/import.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

struct ImportCommand {
  std::string model;                   ///< ONNX or .tflite file
  std::string output;                  ///< file to write
  std::vector<std::string> ends = {};  ///< nodes or values that become the outputs
  bool float_parts = false;            ///< allows parts without an integer form
  std::string json = {};
};

namespace {

struct InputReport {
  std::string label;
  DType dtype = DType::F32;
  Shape shape;

  static constexpr auto fields() {
    using R = InputReport;
    return std::tuple{field("label", &R::label, "of the node"),
                      field("dtype", &R::dtype, "of a sample"),
                      field("shape", &R::shape, "of a sample")};
  }
};

struct ImportReport : TrainingPreparation {
  std::vector<InputReport> inputs;
  int64_t nodes = 0;
  int64_t layers = 0;
  int64_t parameters = 0;
  std::vector<std::string> left_out;

  static constexpr auto fields() {
    using R = ImportReport;
    return std::tuple_cat(
        std::tuple{field("inputs", &R::inputs, "in order"),
                   field("nodes", &R::nodes, "of the graph"),
                   field("layers", &R::layers, "with weights"),
                   field("parameters", &R::parameters, "trainable elements"),
                   field("left_out", &R::left_out,
                         "parts of the file that are not imported, one line each")},
        TrainingPreparation::fields());
  }
};

/// Returns the number of weights, also of those that quantizers of the file round.
int64_t layers_of(const Graph& graph) {
  std::set<int32_t> rounded;
  for (const Node& node : graph.nodes()) {
    const auto weights = weights_operand(node.op);
    if (!weights) continue;
    const NodeId id = node.operands[*weights];
    const Node& operand = graph[id];
    if (!is_quantizer(operand.op)) continue;
    const Op& origin = graph[operand.operands[0]].op;
    if (std::holds_alternative<Parameter>(origin)) rounded.insert(id.index);
  }
  return std::ssize(layer_weights(graph)) + std::ssize(rounded);
}

void add(ImportReport& report, const Model& model) {
  report.nodes = model.graph().size();
  report.layers = layers_of(model.graph());
  report.parameters = model.parameters().trainable_elements();
  for (const Node& node : model.graph().nodes()) {
    if (!std::holds_alternative<Input>(node.op)) continue;
    report.inputs.push_back({node.label, node.type.dtype, node.type.shape.without_first()});
  }
}

void print(const ImportReport& report) {
  for (const InputReport& input : report.inputs) {
    fmt::print("input {}, a sample of it {}\n", printable(input.label),
               to_string(TensorType{input.dtype, input.shape}));
  }
  fmt::print("{}, {} with weights, {}\n", counted(report.nodes, "node"),
             counted(report.layers, "layer"), counted(report.parameters, "parameter"));
  for (const std::string& each : report.left_out) fmt::print("{}\n", each);
  if (!report.unquantized_parts.empty() && report.float_parts.empty()) {
    fmt::print("qtape calibrate --complete adds the quantizers that are missing\n");
  }
}

/// Returns the first bytes of a file, as many as tell its format; none if it cannot be read,
/// and of a pipe, which cannot be read twice.
std::string first_bytes(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return {};
  std::ifstream file(path, std::ios::binary);
  std::array<char, 8> bytes{};
  file.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<size_t>(file.gcount())};
}

/// Throws GraphError for an answer that no command can run.
void require_rows(const Graph& graph) {
  for (const NodeId id : graph.answers()) {
    const Shape& shape = graph[id].type.shape;
    const int64_t rows = shape.rank() > 0 ? shape[0] : 0;
    check(rows == 1,
          "output {}: it has {} rows for each sample, expected one: reshape it to "
          "[batch, ...]",
          graph.describe(id), rows);
  }
}

/// Reads the file in the format in which it begins.
SavedModel imported_model(const ImportCommand& command, programs::OutputFiles& files,
                          ImportReport& report) {
  const std::string begin = first_bytes(command.model);
  require<FormatError>(!begin.starts_with('{'),
                       "{}: is JSON, expected an ONNX or TensorFlow Lite file; models and "
                       "programs of qtape need no import",
                       command.model);
  if (is_tflite(begin)) {
    require<ArgumentError>(command.ends.empty(), "--end: {} is a .tflite file, expected ONNX",
                           command.model);
    return import_tflite_model(command.model, &report.left_out);
  }
  std::vector<std::string> data_files;
  SavedModel imported = import_onnx(command.model, &report.left_out,
                                    {.outputs = command.ends, .data_files = &data_files});
  files.found_to_read(data_files);
  return imported;
}

/// Throws FormatError for values that are NaN; adds a remark on those that are infinite, which
/// are refused in a model without quantizers.
void check_values(const std::string& file, const SavedModel& model, ImportReport& report) {
  for (const ParameterEntry& each : model.parameters.entries()) {
    if (each.type.dtype != DType::F32) continue;
    const auto values = each.values<float>();
    require_no_nan<float>(file, each.name, values);
    if (quantizers(model.graph).empty()) continue;
    if (std::ranges::any_of(values, [](float v) { return std::isinf(v); })) {
      report.left_out.push_back(
          fmt::format("'{}' has infinite values, which have no codes", printable(each.name)));
    }
  }
}

/// Returns the model to write, and reports its parts without an integer form. A model without
/// quantizers stays as it is, as commands that quantize it rewrite its layers: one that trains
/// keeps batch norms in training.
Model judged(SavedModel imported, bool float_parts, ImportReport& report) {
  if (quantizers(imported.graph).empty()) {
    judge_rewritten(imported.graph, imported.parameters, float_parts, report);
    return Model(std::move(imported));
  }
  std::vector<Finding> refused;
  Model made = rewritten(Model(std::move(imported)), report, refused);
  judge(made.graph(), float_parts, report, std::move(refused));
  judge_unquantized(made.graph(), true, report);
  return made;
}

}  // namespace

/// Converts a model of another format to a model file; prints its inputs and sizes.
void import_model(const ImportCommand& command) {
  programs::OutputFiles files;
  files.reads({command.model});
  files.expect_unread("--output", command.output);
  files.expect_text("--json", command.json);
  ImportReport report;
  SavedModel imported = imported_model(command, files, report);
  check_values(command.model, imported, report);
  const Model model = naming<GraphError>(command.model, [&] {
    require_rows(imported.graph);
    return judged(std::move(imported), command.float_parts, report);
  });
  add(report, model);
  print(report);
  files.save(command.output, [&](const std::string& name) { model.save(name); });
  write_report(files, command.json, report);
  files.require_written();
}

Command add_import(CLI::App& app) {
  const auto o = std::make_shared<ImportCommand>();
  CLI::App& import =
      *app.add_subcommand("import", "Convert an ONNX or TensorFlow Lite file to a qtape model");
  import.add_option("model", o->model, "ONNX or .tflite file")->required();
  add_output(import, o->output, "file to write");
  import
      .add_option("--end", o->ends,
                  "end at this node, module or value of the ONNX file instead of at its "
                  "outputs; may be repeated")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_float_parts(import, o->float_parts);
  add_json(import, o->json);
  return {&import, [o] {
            import_model(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
