#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/io/files.h"
#include "qtape/model/quantization.h"
#include "qtape/programs/output_files.h"
#include "qtape/tflite/export.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

struct ExportTfliteCommand {
  std::string file;    ///< program of DoubleRounding, or model
  DataOptions data;    ///< from which the range of a model's outputs is measured
  std::string output;  ///< file to write
  int threads = default_threads();
  std::string json = {};
};

namespace {

struct TfliteReport {
  int64_t nodes = 0;
  int64_t bytes = 0;
  int64_t samples = 0;
  int64_t given = 0;  ///< samples of the data, not reported as JSON
  int64_t bits = 0;
  std::vector<std::string> tensors = {};

  static constexpr auto fields() {
    using R = TfliteReport;
    return std::tuple{
        field("nodes", &R::nodes, "of the program"), field("bytes", &R::bytes, "of the file"),
        field("samples", &R::samples,
              "from which the ranges of outputs were measured; 0: they were quantized before"),
        field("bits", &R::bits, "of outputs that were quantized; 0: none"),
        field("tensors", &R::tensors, "grids of inputs and outputs, one line each")};
  }
};

void print(const TfliteReport& report) {
  if (report.samples > 0) {
    fmt::print("outputs are quantized to {} bits, by their ranges on {}{}\n", report.bits,
               counted(report.samples, "sample"),
               report.samples < report.given ? fmt::format(" of {}", report.given) : "");
  }
  fmt::print("{} nodes, {} bytes\n", report.nodes, report.bytes);
  for (const std::string& each : report.tensors) fmt::print("{}\n", each);
}

/// Returns the program to write: that of the file, or its converted model.
IntegerProgram program_of(AnyFile& file, const std::string& path) {
  return exported_program(file, path, std::nullopt, Requantization::DoubleRounding, false,
                          Layout::nhwc);
}

/// Throws GraphError with all nodes that cannot be written, whatever the ranges of the answers
/// in `graph` are, so that data are not asked for in vain.
void check_without_ranges(const SavedModel& saved, const Graph& graph,
                          const std::string& path) {
  Model model(graph, 0);
  (void)model.take_over(saved.parameters);
  for (const NodeId id : quantizers(graph)) {
    const auto known = qparams(graph, model.parameters(), id);
    const bool unknown =
        std::ranges::any_of(known, [](const auto& each) { return each.scale == 0; });
    if (unknown) set_qparams(graph, model.parameters(), id, 1.0);
  }
  AnyFile trial = SavedModel{graph, std::move(model.parameters())};
  const IntegerProgram program = program_of(trial, path);
  naming<GraphError>(path, [&] { (void)to_tflite(program); });
}

/// Quantizes the answers of a model that are sums, as its operators end in codes.
void quantize_outputs(SavedModel& saved, const ExportTfliteCommand& command,
                      TfliteReport& report) {
  const FakeQuantize quantizer = quantizer_of_answers(saved.graph);
  const Graph graph = quantize_answers(saved.graph, quantizer);
  if (graph == saved.graph) return;
  if (!command.data.given()) check_without_ranges(saved, graph, command.file);
  require<ArgumentError>(command.data.given(),
                         "{}: the outputs are sums, but operators of TensorFlow Lite Micro end "
                         "in codes; expected --data or --input, to measure their ranges",
                         command.file);
  const data::Dataset samples =
      load_data(command.data, needs_of(command.file, saved.graph)).train;
  report.bits = quantizer.bits;
  report.given = samples.size();
  report.samples = calibrated_samples(samples, default_calibration_samples);
  const Model original(std::move(saved));
  Model model =
      with_quantized_answers(original, samples, default_calibration_samples, command.threads);
  saved = {.graph = model.graph(), .parameters = std::move(model.parameters())};
}

}  // namespace

/// Writes a program as a `.tflite` model; prints how its inputs and outputs are quantized.
void export_tflite(const ExportTfliteCommand& command) {
  check_options(command.data);
  programs::OutputFiles files;
  files.reads({command.file});
  files.reads(command.data.paths());
  files.expect_unread("--output", command.output);
  files.expect_text("--json", command.json);
  AnyFile file = load_file(command.file, files);
  TfliteReport report;
  if (auto* model = std::get_if<SavedModel>(&file)) {
    *model = before_softmax(std::move(*model));
    if (!quantizers(model->graph).empty()) quantize_outputs(*model, command, report);
  }
  if (command.data.given() && report.samples == 0) {
    fmt::print("the data are not used: the outputs have grids already\n");
  }
  const IntegerProgram program = program_of(file, command.file);
  report.nodes = program.size();
  const std::string bytes =
      naming<GraphError>(command.file, [&] { return to_tflite(program, &report.tensors); });
  report.bytes = std::ssize(bytes);
  files.save(command.output, [&](const std::string& path) { write_file(path, bytes); });
  print(report);
  write_report(files, command.json, report);
  files.require_written();
}

Command add_export_tflite(CLI::App& app) {
  const auto o = std::make_shared<ExportTfliteCommand>();
  CLI::App& to_tflite = *app.add_subcommand(
      "tflite", "Write an integer program of DoubleRounding for TensorFlow Lite Micro");
  to_tflite.add_option("file", o->file, "file of an integer program or a model")->required();
  add_output(to_tflite, o->output, "file to write");
  add_data(to_tflite, o->data, o->threads);
  add_json(to_tflite, o->json);
  return {&to_tflite, [o] {
            export_tflite(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
