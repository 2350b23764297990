#include <fmt/format.h>

#include "qtape/deploy/any_file.h"
#include "qtape/engine/files.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/onnx/export.h"
#include "qtape/onnx/levels.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/verify_samples.h"

namespace qtape::tool {
namespace {

struct OnnxReport {
  OnnxForm form = OnnxForm::Qdq;
  int64_t opset = 0;
  int64_t nodes = 0;
  int64_t bytes = 0;
  int64_t samples = 0;
  std::optional<int64_t> codes = {};
  std::optional<int64_t> changed_codes = {};
  std::optional<int64_t> changed_labels = {};

  static constexpr auto fields() {
    using R = OnnxReport;
    return std::tuple{field("form", &R::form, "of products"),
                      field("opset", &R::opset, "version of the operators"),
                      field("nodes", &R::nodes, "of the program"),
                      field("bytes", &R::bytes, "of the file"),
                      field("samples", &R::samples, "that products in float were tried on"),
                      field("codes", &R::codes, "that were compared; null where not tried"),
                      field("changed_codes", &R::changed_codes, "that floats change"),
                      field("changed_labels", &R::changed_labels,
                            "samples that are seen differently; null without labels")};
  }
};

/// Counts what products in float change, by an interpreter of the model.
void count_changes(OnnxReport& report, SavedModel& model, const ExportOnnxCommand& command) {
  VerifyOptions options;
  options.convert.requantization = Requantization::OnnxQdq;
  options.batch = verification_batch(model.graph);
  options.threads = command.threads;
  options.levels = {Level::Onnx};
  options.runners = onnx_levels({.form = command.form, .opset = command.opset});
  Verifier verifier(model.graph, model.parameters, options);
  const data::Dataset dataset = load_data(command.data, features_of(model.graph)).test;
  Samples samples{verifier, model.graph, options.batch};
  if (samples.takes(dataset, command.data.given())) {
    require<ArgumentError>(dataset.size() > 0, "--input: there are no samples");
    report.samples = dataset.size();
    const auto found = samples.run_data(dataset);
    if (found && found->metric == MetricKind::Accuracy) {
      report.changed_labels = found->seen_differently.at(Level::Onnx);
    }
  } else {
    constexpr int64_t random = 1000;
    report.samples = random;
    samples.run_random(random, 1);
  }
  report.codes = 0;
  report.changed_codes = 0;
  for (const LayerComparison& layer : verifier.layers()) {
    const auto changed = layer.differences.find(Level::Onnx);
    if (changed == layer.differences.end()) continue;
    *report.codes += layer.compared;
    *report.changed_codes += changed->second;
  }
}

void print(const OnnxReport& report) {
  fmt::print("{} nodes, opset {}, {} bytes\n", report.nodes, report.opset, report.bytes);
  if (!report.codes) return;
  fmt::print("products in float change {} of {} codes of {} samples{}\n", *report.changed_codes,
             *report.codes, report.samples,
             report.changed_labels
                 ? fmt::format(", {} of these are seen differently", *report.changed_labels)
                 : "");
}

}  // namespace

void export_onnx(const ExportOnnxCommand& command) {
  examples::OutputFiles files;
  files.reads({command.file});
  files.reads(command.data.paths());
  files.expect_unread("--output", command.output);
  files.expect_text("--json", command.json);
  AnyFile file = load_any(command.file);
  const IntegerProgram program = exported_program(
      file, command.file, std::nullopt, Requantization::OnnxQdq, command.integer_outputs);
  const std::string bytes = naming<GraphError>(command.file, [&] {
    return to_onnx(program, {.form = command.form, .opset = command.opset});
  });
  auto* model = std::get_if<SavedModel>(&file);
  const bool counts = model != nullptr && command.form == OnnxForm::Qdq;
  require<ArgumentError>(counts || !command.data.given(),
                         "--data and --input are for models in the form {}: they count what "
                         "products in float change",
                         to_string_view(OnnxForm::Qdq));
  OnnxReport report{.form = command.form,
                    .opset = command.opset,
                    .nodes = program.size(),
                    .bytes = std::ssize(bytes)};
  if (counts) count_changes(report, *model, command);
  files.save(command.output, [&](const std::string& path) { write_file(path, bytes); });
  print(report);
  write_report(files, command.json, report);
  files.require_written();
}

}  // namespace qtape::tool
