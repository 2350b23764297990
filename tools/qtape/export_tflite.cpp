#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "qtape/integer/program/integer_program.h"
#include "qtape/programs/output_files.h"
#include "qtape/tflite/export.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

struct ExportTfliteCommand {
  std::string file;    ///< program of DoubleRounding, or model
  std::string output;  ///< file to write
  std::string json = {};
};

namespace {

struct TfliteReport {
  int64_t nodes = 0;
  int64_t bytes = 0;
  std::vector<std::string> tensors = {};

  static constexpr auto fields() {
    using R = TfliteReport;
    return std::tuple{
        field("nodes", &R::nodes, "of the program"), field("bytes", &R::bytes, "of the file"),
        field("tensors", &R::tensors, "grids of inputs and outputs, one line each")};
  }
};

void print(const TfliteReport& report) {
  fmt::print("{} nodes, {} bytes\n", report.nodes, report.bytes);
  for (const std::string& each : report.tensors) fmt::print("{}\n", each);
}

}  // namespace

/// Writes a program as a `.tflite` model; prints how its inputs and outputs are quantized.
void export_tflite(const ExportTfliteCommand& command) {
  examples::OutputFiles files;
  files.reads({command.file});
  files.expect_unread("--output", command.output);
  files.expect_text("--json", command.json);
  AnyFile file = load_file(command.file);
  const IntegerProgram program = exported_program(
      file, command.file, std::nullopt, Requantization::DoubleRounding, false, Layout::nhwc);
  TfliteReport report{.nodes = program.size()};
  files.save(command.output, [&](const std::string& path) {
    naming<GraphError>(command.file,
                       [&] { report.bytes = write_tflite(path, program, &report.tensors); });
  });
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
  add_json(to_tflite, o->json);
  return {&to_tflite, [o] {
            export_tflite(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
