#include "qtape/deploy/compare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/model/feed.h"
#include "qtape/programs/command_line.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/compare_report.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"
#include "qtape/tools/qtape/random_inputs.h"
#include "qtape/tools/qtape/verify_samples.h"

namespace qtape::tool {

struct CompareCommand {
  std::string a;
  std::string b;
  DataOptions data;
  std::optional<Requantization> requantization = std::nullopt;  ///< of models
  /// Number of random inputs; empty: none with data, otherwise 1000.
  std::optional<int64_t> random = std::nullopt;
  int64_t seed = 1;
  int threads = default_threads();
  std::string json = {};
};

namespace {

/// Samples per run: all values of both programs are kept.
constexpr int64_t max_samples = 16;

/// Returns the requantization of models: the given one, else that of the other file.
Requantization default_requantization(const AnyFile& other) {
  const auto* program = std::get_if<IntegerProgram>(&other);
  return program != nullptr ? program->requantization() : ConvertOptions{}.requantization;
}

IntegerProgram compared_program(AnyFile& file, const std::string& path, const AnyFile& other,
                                const CompareCommand& command) {
  const bool is_model = std::holds_alternative<SavedModel>(file);
  if (is_model) file = before_softmax(std::move(std::get<SavedModel>(file)));
  return exported_program(file, path, is_model ? command.requantization : std::nullopt,
                          default_requantization(other), false, Layout::nhwc);
}

/// Returns a batch size that both programs have.
int64_t common_batch(const IntegerProgram& a, const IntegerProgram& b) {
  const int64_t of_a = verification_batch(a, max_samples);
  return of_a == max_samples ? verification_batch(b, max_samples) : of_a;
}

/// Returns the values that the inputs of either program distinguish; of indices those that both
/// have.
std::vector<InputRange> common_ranges(const ProgramComparison& comparison) {
  std::vector<InputRange> ranges;
  for (const auto& [in_a, in_b] : comparison.inputs()) {
    const InputRange a = range_of(comparison.program_a(), in_a);
    const InputRange b = range_of(comparison.program_b(), in_b);
    ranges.push_back({std::min(a.low, b.low),
                      a.integers ? std::min(a.high, b.high) : std::max(a.high, b.high),
                      a.integers, a.batch});
  }
  return ranges;
}

void run_data(ProgramComparison& comparison, const data::Dataset& dataset) {
  Feed feed(inputs_of(comparison.session()), dataset);
  feed.for_each_batch([&](int64_t first, int64_t count) {
    comparison.run(count);
    show_progress("samples", first + count, dataset.size());
  });
}

void run_random(ProgramComparison& comparison, int64_t batch, int64_t samples, uint64_t seed) {
  const std::vector<InputRange> ranges = common_ranges(comparison);
  const auto memory = [&]<class T>(size_t k) {
    return comparison.session().input<T>(comparison.inputs()[k].a);
  };
  for (int64_t first = 0; first < samples; first += batch) {
    const int64_t count = std::min(batch, samples - first);
    fill_random(ranges, {seed, first, count, batch}, memory);
    comparison.run(count);
    show_progress("random inputs", first + count, samples);
  }
}

CompareReport compare_programs(const IntegerProgram& a, const IntegerProgram& b,
                               const CompareCommand& command) {
  const bool with_data = command.data.given();
  const int64_t random = command.random.value_or(with_data ? 0 : 1000);
  data::Dataset dataset;
  if (with_data) {
    dataset = load_data(command.data, needs_of(command.a, a)).test;
    require_fit(a, dataset);
  }
  const int64_t batch = common_batch(a, b);
  ProgramComparison comparison(a, b,
                               {.batch = batch,
                                .threads = command.threads,
                                .name_a = printable(command.a),
                                .name_b = printable(command.b)});
  if (with_data) naming_nan(dataset, [&] { run_data(comparison, dataset); });
  run_random(comparison, batch, random, static_cast<uint64_t>(command.seed));
  CompareReport report = comparison_report(comparison);
  report.samples = dataset.size();
  report.random_inputs = random;
  return report;
}

void print_file(std::string_view name, const std::string& path, const IntegerProgram& program) {
  const std::string_view rounding = requantization::dispatch(
      program.requantization(), []<class Each>() { return Each::doc; });
  fmt::print("{}: {}, {} nodes, {} [{}]\n", name, printable(path), program.size(),
             to_string_view(program.requantization()), rounding);
}

/// Runs two files on the same inputs and prints the nodes whose codes or numbers differ.
/// Returns true if all codes and outputs agree.
bool compare(const CompareCommand& command) {
  check_options(command.data);
  programs::OutputFiles files;
  files.reads({command.a, command.b});
  files.reads(command.data.paths());
  files.expect_text("--json", command.json);
  AnyFile a = load_file(command.a, files);
  AnyFile b = load_file(command.b, files);
  require<ArgumentError>(!command.requantization || std::holds_alternative<SavedModel>(a) ||
                             std::holds_alternative<SavedModel>(b),
                         "--requantization is that of models; {} and {} are programs",
                         printable(command.a), printable(command.b));
  const IntegerProgram program_a = compared_program(a, command.a, b, command);
  const IntegerProgram program_b = compared_program(b, command.b, a, command);
  const CompareReport report = compare_programs(program_a, program_b, command);
  print_file("A", command.a, program_a);
  print_file("B", command.b, program_b);
  print(report);
  write_report(files, command.json, report);
  files.require_written();
  return report.differ == 0;
}

}  // namespace

Command add_compare(CLI::App& app) {
  const auto o = std::make_shared<CompareCommand>();
  CLI::App& compare = *app.add_subcommand(
      "compare", "Show where the codes of two models or programs differ, and why");
  compare.add_option("file", o->a, "file of a model, an integer program or a .tflite model")
      ->required();
  compare.add_option("other", o->b, "file to compare with")->required();
  add_data(compare, o->data, o->threads);
  add_json(compare, o->json);
  add_option(
      compare, "--requantization", o->requantization,
      "conversion of accumulators to codes in models; by default that of the other file");
  add_option(compare, "--random", o->random,
             "random inputs to compare, with or without data; 1000 without", {1, 1000000000});
  add_option(compare, "--seed", o->seed, "seed of the random inputs", {.low = 0});
  return {&compare, [o, &compare] {
            programs::refuse_useless(compare, o->data.given() && !o->random,
                                     "needs --random in addition to data", {"--seed"});
            return qtape::tool::compare(*o) ? 0 : 1;
          }};
}

}  // namespace qtape::tool
