#include "qtape/onnx/import.h"

#include <fmt/format.h>

#include "qtape/core/printable.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/model/recipe.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"

namespace qtape::tool {

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

struct ImportReport {
  std::vector<InputReport> inputs;
  int64_t nodes = 0;
  int64_t layers = 0;
  int64_t parameters = 0;
  std::vector<std::string> left_out;

  static constexpr auto fields() {
    using R = ImportReport;
    return std::tuple{field("inputs", &R::inputs, "in order"),
                      field("nodes", &R::nodes, "of the graph"),
                      field("layers", &R::layers, "with weights"),
                      field("parameters", &R::parameters, "trainable elements"),
                      field("left_out", &R::left_out, "of the file, a line for each")};
  }
};

ImportReport report_of(const SavedModel& model) {
  ImportReport report{.nodes = model.graph.size(),
                      .layers = static_cast<int64_t>(layer_weights(model.graph).size()),
                      .parameters = model.parameters.trainable_elements()};
  for (const Node& node : model.graph.nodes()) {
    if (!std::holds_alternative<Input>(node.op)) continue;
    report.inputs.push_back(
        {node.label, node.type.dtype, Shape(node.type.shape.extents().subspan(1))});
  }
  return report;
}

void print(const ImportReport& report) {
  for (const InputReport& input : report.inputs) {
    fmt::print("input {}, a sample of it {}\n", printable(input.label),
               to_string(TensorType{input.dtype, input.shape}));
  }
  fmt::print("{} nodes, {} layers with weights, {} parameters\n", report.nodes, report.layers,
             report.parameters);
  for (const std::string& each : report.left_out) fmt::print("{}\n", each);
}

}  // namespace

void import_model(const std::string& path, const std::string& output, const std::string& json) {
  examples::OutputFiles files;
  files.reads({path});
  files.expect_unread("--output", output);
  files.expect_text("--json", json);
  std::vector<std::string> left_out;
  const SavedModel model = import_onnx(path, &left_out);
  ImportReport report = report_of(model);
  report.left_out = std::move(left_out);
  print(report);
  files.save(output,
             [&](const std::string& name) { save_model(name, model.graph, model.parameters); });
  write_report(files, json, report);
  files.require_written();
}

}  // namespace qtape::tool
