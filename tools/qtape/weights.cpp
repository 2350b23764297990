#include "qtape/model/passes/weights.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "qtape/engine/serialize.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/io/files.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

struct WeightsCommand {
  std::string model;
  std::string from;    ///< file of arrays with new values; empty: none
  std::string output;  ///< file to write: of arrays, else the model with the new values
  std::string json = {};
};

namespace {

struct WeightsReport {
  int64_t arrays = 0;
  int64_t numbers = 0;
  std::optional<int64_t> taken = {};
  std::optional<int64_t> kept = {};

  static constexpr auto fields() {
    using R = WeightsReport;
    return std::tuple{field("arrays", &R::arrays, "of the file"),
                      field("numbers", &R::numbers, "in them"),
                      field("taken", &R::taken, "parameters and states with new values"),
                      field("kept", &R::kept, "parameters and states without new values")};
  }
};

WeightsReport report_of(const NamedTensors& values) {
  WeightsReport report{.arrays = static_cast<int64_t>(values.size())};
  for (const NamedTensor& each : values) report.numbers += each.tensor.type.elements();
  return report;
}

void print(const WeightsReport& report) {
  fmt::print("{} arrays, {} numbers\n", report.arrays, report.numbers);
  if (!report.taken) return;
  fmt::print("{} of {} parameters and states replaced, {} kept\n", *report.taken,
             *report.taken + *report.kept, *report.kept);
}

/// Throws FormatError for NaN, which models cannot store.
void require_storable(const std::string& file, const NamedTensors& values) {
  for (const NamedTensor& each : values) {
    const DType dtype = each.tensor.type.dtype;
    if (dtype != DType::F32 && dtype != DType::F64) continue;
    dispatch_compute(
        dtype, [&]<class T>() { require_no_nan<T>(file, each.name, each.tensor.values<T>()); });
  }
}

void write_values(const WeightsCommand& command) {
  const std::string& output = command.output;
  require<ArgumentError>(output.ends_with(".npz") || output.ends_with(".safetensors"),
                         "--output: expected a name that ends in .npz or .safetensors, got {}",
                         output);
  programs::OutputFiles files;
  files.expect("--output", command.output);
  files.reads({command.model, command.from});
  files.expect_text("--json", command.json);
  const SavedModel model = read_model(command.model, files);
  const NamedTensors values = named_values(model.parameters);
  const std::string bytes = to_array_file(command.output, values);
  const WeightsReport report = report_of(values);
  print(report);
  files.save(command.output, [&](const std::string& path) { write_file(path, bytes); });
  write_report(files, command.json, report);
  files.require_written();
}

void take_values(const WeightsCommand& command) {
  require<ArgumentError>(!names_array_file(command.output),
                         "--output: expected a model with --from, got {}", command.output);
  programs::OutputFiles files;
  files.expect("--output", command.output);
  files.reads({command.model, command.from});
  files.expect_text("--json", command.json);
  SavedModel model = read_model(command.model, files);
  const NamedTensors values = read_arrays(command.from);
  WeightsReport report = report_of(values);
  require_storable(command.from, values);
  report.taken =
      naming<GraphError>(command.from, [&] { return set_values(model.parameters, values); });
  report.kept = static_cast<int64_t>(model.parameters.entries().size()) - *report.taken;
  print(report);
  files.save(command.output,
             [&](const std::string& path) { save_model(path, model.graph, model.parameters); });
  write_report(files, command.json, report);
  files.require_written();
}

}  // namespace

/// Writes all parameters and states of a model by name, or a model with values replaced by
/// name, without the other parts of a checkpoint; prints their number.
void weights(const WeightsCommand& command) {
  return command.from.empty() ? write_values(command) : take_values(command);
}

Command add_weights(CLI::App& app) {
  const auto o = std::make_shared<WeightsCommand>();
  CLI::App& weights =
      *app.add_subcommand("weights", "Write a model's values as arrays, or replace them");
  add_model(weights, o->model);
  weights.add_option("--from", o->from,
                     "take values from this .npz or .safetensors file, by name");
  add_output(weights, o->output, "file to write: .npz or .safetensors; with --from, the model");
  add_json(weights, o->json);
  return {&weights, [o] {
            qtape::tool::weights(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
