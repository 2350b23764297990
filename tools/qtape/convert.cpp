#include "qtape/deploy/convert.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "qtape/engine/json_file.h"
#include "qtape/engine/serialize.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

struct ConvertCommand {
  std::string model;
  std::string output;  ///< file for the integer program; "-": standard output
  Requantization requantization = Requantization::FloatMultiply;
  bool integer_outputs = false;
  Layout layout = Layout::nhwc;
  bool verbose = false;  ///< print all nodes with their certificates
  std::string json = {};

  static constexpr auto fields() {
    using C = ConvertCommand;
    return std::tuple{
        setting("requantization", &C::requantization, "conversion of accumulators to codes"),
        setting("integer_outputs", &C::integer_outputs,
                "output codes and accumulators instead of floats"),
        setting("layout", &C::layout, layout_doc)};
  }
};

namespace {

struct ConvertReport {
  Requantization requantization = Requantization::FloatMultiply;
  std::vector<ProgramNodeReport> nodes;
  int64_t bytes = 0;
  std::optional<int64_t> model_bytes = {};
  std::optional<double> percent = {};

  static constexpr auto fields() {
    using R = ConvertReport;
    return std::tuple{
        field("requantization", &R::requantization, "conversion of accumulators to codes"),
        field("nodes", &R::nodes, "of the program, in order"),
        field("bytes", &R::bytes, "of its text"),
        field("model_bytes", &R::model_bytes, "of the model's file; null for a pipe"),
        field("percent_of_model", &R::percent,
              "bytes of the program relative to the model's file; null for a pipe")};
  }
};

ConvertReport report_of(const IntegerProgram& program, const std::string& text,
                        const std::string& model) {
  ConvertReport report{.requantization = program.requantization(),
                       .nodes = nodes_of(program),
                       .bytes = static_cast<int64_t>(text.size())};
  std::error_code none;
  const uintmax_t bytes = std::filesystem::file_size(model, none);
  if (none || bytes == 0) return report;
  report.model_bytes = static_cast<int64_t>(bytes);
  report.percent = 100 * static_cast<double>(report.bytes) / static_cast<double>(bytes);
  return report;
}

/// Prints the numbers of nodes and products of a program, and the largest bounds of the
/// products.
void print_summary(const ConvertReport& report) {
  fmt::print("requantization {}, {} nodes\n", to_string_view(report.requantization),
             report.nodes.size());
  int64_t products = 0;
  Certificate largest;
  for (const ProgramNodeReport& each : report.nodes) {
    if (!each.certificate) continue;
    ++products;
    for_each_field<Certificate>([&](const auto& bound) {
      int64_t& most = largest.*bound.member;
      most = std::max(most, (*each.certificate).*bound.member);
    });
  }
  if (products == 0) return;
  fmt::print("{} product{} with weights, proven: {}\n", products, products == 1 ? "" : "s",
             to_string(largest));
}

}  // namespace

/// Writes a model's integer program; prints the number of nodes, the largest certificate and
/// the reduction in text size.
void convert(const ConvertCommand& command) {
  programs::OutputFiles files;
  std::error_code missing;
  require<ArgumentError>(!std::filesystem::equivalent(command.model, command.output, missing),
                         "--output: {} is the model itself", command.output);
  files.expect_text("--output", command.output);
  files.reads({command.model});
  files.expect_text("--json", command.json);
  const SavedModel model = before_softmax(read_model(command.model, files));
  const IntegerProgram program = converted(
      model, command.model,
      {.requantization = command.requantization, .integer_outputs = command.integer_outputs},
      command.layout);
  const std::string text =
      naming<FormatError>(command.output, [&] { return to_json(program); });
  const ConvertReport report = report_of(program, text, command.model);
  if (command.verbose) {
    fmt::print("{}\n", to_string(program));
  } else {
    print_summary(report);
  }
  if (command.output == "-") {
    files.write(command.output, text);
  } else {
    files.save(command.output, [&](const std::string& path) { write_text(path, text); });
  }
  write_report(files, command.json, report);
  files.require_written();
  const std::string part =
      report.percent ? fmt::format(", {:.1f} % of {}", *report.percent, command.model) : "";
  fmt::print("{} bytes{}\n", report.bytes, part);
}

Command add_convert(CLI::App& app) {
  const auto o = std::make_shared<ConvertCommand>();
  CLI::App& convert = *app.add_subcommand("convert", "Write a model as an integer program");
  add_model(convert, o->model);
  add_json(convert, o->json);
  add_output(convert, o->output, "file to write; - is standard output");
  add_settings(convert, *o);
  convert.add_flag("-v,--verbose", o->verbose, "print all nodes with their certificates");
  return {&convert, [o] {
            qtape::tool::convert(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
