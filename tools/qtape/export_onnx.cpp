#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "qtape/integer/program/integer_node.h"
#include "qtape/onnx/export.h"
#include "qtape/onnx/levels.h"
#include "qtape/programs/command_line.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/verify_samples.h"

namespace qtape::tool {

struct ExportOnnxCommand {
  std::string file;    ///< integer program with OnnxQdq, or model
  DataOptions data;    ///< for counting the codes that products in float change; only for
                       ///< models
  std::string output;  ///< file to write
  OnnxForm form = OnnxForm::Qdq;
  int64_t opset = first_onnx_opset;
  bool integer_outputs = false;
  Layout layout = Layout::nhwc;
  int threads = default_threads();
  std::string json = {};
  const CLI::App* line = nullptr;  ///< as parsed

  static constexpr auto fields() {
    using C = ExportOnnxCommand;
    return std::tuple{setting("opset", &C::opset, "version of ONNX's operators",
                              {first_onnx_opset, last_onnx_opset}),
                      setting("integer_outputs", &C::integer_outputs,
                              "output codes and accumulators instead of floats"),
                      setting("layout", &C::layout, layout_doc)};
  }
};

namespace {

struct OnnxReport {
  OnnxForm form = OnnxForm::Qdq;
  int64_t opset = 0;
  int64_t nodes = 0;
  int64_t bytes = 0;
  bool int4 = false;
  int64_t samples = 0;
  bool random = false;
  std::optional<int64_t> codes = {};
  std::optional<int64_t> changed_codes = {};
  std::optional<int64_t> largest_change = {};
  std::optional<int64_t> changed_labels = {};

  static constexpr auto fields() {
    using R = OnnxReport;
    return std::tuple{
        field("form", &R::form, "of products"),
        field("opset", &R::opset, "version of the operators"),
        field("nodes", &R::nodes, "of the program"),
        field("bytes", &R::bytes, "of the file"),
        field("int4", &R::int4, "true if weights of up to 4 bits are written as int4"),
        field("samples", &R::samples, "on which products in float were compared"),
        field("random", &R::random, "true if the samples are generated, without --data"),
        field("codes", &R::codes, "that were compared; null if not compared"),
        field("changed_codes", &R::changed_codes, "changed by sequential sums in f32"),
        field("largest_change", &R::largest_change, "of a code"),
        field("changed_labels", &R::changed_labels,
              "samples whose predicted class changes; null without labels")};
  }
};

/// Counts the codes that products in float change, with the interpreter of the model.
void count_changes(OnnxReport& report, SavedModel& model, const ExportOnnxCommand& command) {
  VerifyOptions options;
  options.convert.requantization = Requantization::OnnxQdq;
  options.batch = verification_batch(model.graph, largest_batch);
  options.threads = command.threads;
  options.levels = {onnx_level};
  options.runners = onnx_levels({.form = command.form, .opset = command.opset});
  Verifier verifier = naming<GraphError>(
      command.file, [&] { return Verifier(model.graph, model.parameters, options); });
  Samples samples{verifier, &model.graph, options.batch};
  if (command.data.given()) {
    const data::Dataset dataset =
        load_data(command.data, needs_of(command.file, model.graph)).test;
    require<ArgumentError>(dataset.size() > 0, "--input: there are no samples");
    report.samples = dataset.size();
    const auto found = naming_nan(dataset, [&] { return samples.run_data(dataset); });
    if (found && found->metric == MetricKind::Accuracy) {
      report.changed_labels = found->seen_differently.at(onnx_level);
    }
  } else {
    constexpr int64_t random = 1000;
    report.samples = random;
    report.random = true;
    samples.run_random(random, 1);
  }
  report.codes = 0;
  report.changed_codes = 0;
  report.largest_change = 0;
  for (const LayerComparison& layer : verifier.layers()) {
    const auto changed = layer.differences.find(onnx_level);
    if (changed == layer.differences.end()) continue;
    *report.codes += layer.compared;
    *report.changed_codes += changed->second;
    const auto largest = layer.largest.find(onnx_level);
    if (largest == layer.largest.end()) continue;
    report.largest_change = std::max(*report.largest_change, largest->second);
  }
}

void print(const OnnxReport& report) {
  fmt::print("{} nodes, opset {}, {} bytes\n", report.nodes, report.opset, report.bytes);
  if (report.int4) {
    fmt::print(
        "weights of up to 4 bits are int4, which ONNX Runtime 1.21 does not fuse with their "
        "products; below opset 21 they are int8, which it fuses\n");
  }
  if (!report.codes) return;
  fmt::print("sequential sums in f32 change {} of {} codes of {} {}", *report.changed_codes,
             *report.codes, report.samples, report.random ? "random inputs" : "samples");
  if (*report.changed_codes > 0) fmt::print(", by up to {}", *report.largest_change);
  if (report.changed_labels) {
    fmt::print(", {} of these are classified differently", *report.changed_labels);
  }
  fmt::print("\n");
  fmt::print(
      "this is not a bound: runtimes may sum in other orders and change other codes, or "
      "more; --form integer changes none\n");
}

bool has_int4(const IntegerProgram& program, const ExportOnnxCommand& command) {
  const auto narrow = [](const IntegerNode& node) {
    const QuantizedWeights* weights = weights_of(node.op);
    return weights != nullptr && weights->storage_bits <= 4;
  };
  return command.form == OnnxForm::Qdq && command.opset >= first_onnx_opset_of_int4 &&
         std::ranges::any_of(program.nodes(), narrow);
}

}  // namespace

/// Writes a program as an ONNX model; for a model file and products in float also prints how
/// many codes change.
void export_onnx(const ExportOnnxCommand& command) {
  check_options(command.data);
  programs::OutputFiles files;
  files.reads({command.file});
  files.reads(command.data.paths());
  files.expect_unread("--output", command.output);
  files.expect_text("--json", command.json);
  AnyFile file = load_file(command.file, files);
  const IntegerProgram program =
      exported_program(file, command.file, std::nullopt, Requantization::OnnxQdq,
                       command.integer_outputs, command.layout);
  const OnnxExportOptions options{.form = command.form, .opset = command.opset};
  auto* model = std::get_if<SavedModel>(&file);
  const bool counts = model != nullptr && command.form == OnnxForm::Qdq;
  programs::refuse_useless(
      *command.line, !counts,
      "has no effect: only a model, not an integer program, is run, in the form qdq",
      {"--threads"});
  require<ArgumentError>(
      counts || !command.data.given(),
      "--data and --input apply only to models in the form {}: they count the codes that "
      "products in float change",
      to_string_view(OnnxForm::Qdq));
  OnnxReport report{.form = command.form,
                    .opset = command.opset,
                    .nodes = program.size(),
                    .int4 = has_int4(program, command)};
  if (counts) count_changes(report, *model, command);
  files.save(command.output, [&](const std::string& path) {
    naming<GraphError>(command.file,
                       [&] { report.bytes = write_onnx(path, program, options); });
  });
  if (files.all_written()) print(report);
  write_report(files, command.json, report);
  files.require_written();
}

Command add_export_onnx(CLI::App& app) {
  const auto o = std::make_shared<ExportOnnxCommand>();
  CLI::App& to_onnx =
      *app.add_subcommand("onnx", "Write an integer program of OnnxQdq as an ONNX model");
  to_onnx.add_option("file", o->file, "file of an integer program or a model")->required();
  add_output(to_onnx, o->output, "file to write");
  const auto form = std::make_shared<std::string>("qdq");
  CLI::Option& forms =
      *to_onnx
           .add_option(
               "--form", *form,
               "qdq: products in float between codes, for runtimes that fuse them; integer: "
               "products in integers, exactly the codes of the program; qonnx: products in float and "
               "nodes Quant of QONNX, for FINN and hls4ml")
           ->capture_default_str();
  programs::take_one_of(forms, settings::Choices<OnnxForm>().names());
  add_data(to_onnx, o->data, o->threads);
  add_settings(to_onnx, *o);
  add_json(to_onnx, o->json);
  o->line = &to_onnx;
  return {&to_onnx, [o, form] {
            o->form = from_string<OnnxForm>(*form).value();
            qtape::tool::export_onnx(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
