#include "qtape/deploy/verify.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/deploy/node_numbers.h"
#include "qtape/integer/program/channels_first.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/programs/command_line.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/levels.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"
#include "qtape/tools/qtape/verify_report.h"
#include "qtape/tools/qtape/verify_samples.h"

namespace qtape::tool {

struct VerifyCommand {
  std::string model;
  DataOptions data;
  /// Integer program that the converted model must equal, with any outputs; empty: none.
  std::string program;
  std::vector<Requantization> requantizations = {Requantization::FloatMultiply};
  /// Number of additional random inputs; empty: none, which requires data.
  std::optional<int64_t> random = std::nullopt;
  int64_t seed = 1;  ///< of the random inputs
  std::vector<Level> levels = {default_levels.begin(), default_levels.end()};
  bool usual = true;  ///< true unless levels or a requantization were chosen
  VerifiedFile file = {};
  int threads = default_threads();
  std::string json = {};
};

namespace {

/// Returns `%6 'fc3' and %2`, or `none`.
std::string names_of(const IntegerProgram& program, std::span<const ProgramNodeId> ids) {
  std::string text;
  for (ProgramNodeId id : ids) {
    text += fmt::format("{}%{}", text.empty() ? "" : " and ", id.index);
    if (!program[id].label.empty()) text += fmt::format(" '{}'", printable(program[id].label));
  }
  return text.empty() ? "none" : text;
}

/// Describes the first difference of two programs.
std::string difference(const IntegerProgram& saved, const IntegerProgram& converted) {
  for (const ProgramNodeId id : ids(saved.size() < converted.size() ? saved : converted)) {
    if (saved[id] == converted[id]) continue;
    std::string numbers;
    for (const NumberDifference& each : differing_numbers({saved, id}, {converted, id})) {
      numbers += (numbers.empty() ? "" : "; ") + to_string(each);
    }
    return fmt::format("{} differs: {}", saved.describe(id),
                       numbers.empty() ? "label, operands or storage" : numbers);
  }
  if (saved.size() != converted.size())
    return fmt::format("it has {} nodes, expected {}", saved.size(), converted.size());
  return fmt::format("its outputs are {}, expected {}", names_of(saved, saved.outputs()),
                     names_of(converted, converted.outputs()));
}

bool has_integer_outputs(const IntegerProgram& program) {
  return std::ranges::any_of(program.outputs(), [&](ProgramNodeId id) {
    return program[id].value.type.dtype != DType::F32;
  });
}

/// True for the other layout of `converted`.
bool is_channels_first(const IntegerProgram& saved, const IntegerProgram& converted) {
  try {
    return saved == channels_first(converted);
  } catch (const GraphError&) {
    return false;  // it has none
  }
}

void compare_program(const Verifier& verifier, SavedModel& model, int64_t batch,
                     const std::string& path) {
  const IntegerProgram saved = load_program(path);
  if (saved.requantization() != verifier.program().requantization()) {
    fail<GraphError>("{}: has requantization {}, but {} is verified", path,
                     to_string_view(saved.requantization()),
                     to_string_view(verifier.program().requantization()));
  }
  const IntegerProgram batched = saved.with_batch(batch);
  const IntegerProgram converted =
      has_integer_outputs(saved)
          ? convert(model.graph.with_batch(batch), model.parameters,
                    {.requantization = saved.requantization(), .integer_outputs = true})
          : verifier.program();
  if (batched != converted && !is_channels_first(batched, converted)) {
    fail<GraphError>("{}: differs from the conversion of the model: {}", path,
                     difference(batched, converted));
  }
}

/// Runs the data, if there are any, and random inputs.
void run_samples(RequantizationReport& report, Samples samples, const data::Dataset& dataset,
                 const VerifyCommand& command) {
  Verifier& verifier = samples.verifier;
  const bool seen = command.data.given();
  report.random_inputs = command.random.value_or(0);
  const auto scores = seen ? samples.run_data(dataset) : std::nullopt;
  samples.run_random(report.random_inputs, static_cast<uint64_t>(command.seed));
  add_layers(report, verifier);
  if (scores) add_scores(report, *scores);
  if (seen) report.samples = dataset.size();
  report.mismatches = verifier.mismatches();
  report.first_mismatch = verifier.first_mismatch();
}

/// Returns the larger number of samples, of the data or at random.
int64_t samples_of(const data::Dataset& images, const VerifyCommand& command) {
  return std::max(images.size(), command.random.value_or(0));
}

/// Verifies one requantization. Each part is printed as soon as it is known.
RequantizationReport verify_requantization(SavedModel& model, const data::Dataset& images,
                                           const VerifyCommand& command,
                                           Requantization requantization) {
  const int64_t batch = verification_batch(model.graph, samples_of(images, command));
  Verifier verifier(model.graph, model.parameters,
                    {.convert = {.requantization = requantization},
                     .batch = batch,
                     .threads = command.threads,
                     .levels = command.levels,
                     .runners = target_levels(command.file)});
  RequantizationReport report{.requantization = requantization};
  fmt::print("requantization {}, {} thread{}\n", to_string_view(report.requantization),
             command.threads, command.threads == 1 ? "" : "s");
  if (!command.program.empty()) {
    compare_program(verifier, model, batch, command.program);
    report.program = command.program;
    fmt::print("{} equals the conversion of the model\n", *report.program);
  }
  add_certificates(report, verifier);
  print_certificates(report);
  run_samples(report, {verifier, &model.graph, batch}, images, command);
  print_samples(report, verifier.levels());
  return report;
}

/// Verifies a program, whose requantization is fixed.
RequantizationReport verify_program(const IntegerProgram& program, const data::Dataset& images,
                                    const VerifyCommand& command) {
  const int64_t batch = verification_batch(program, samples_of(images, command));
  Verifier verifier = naming<GraphError>(command.model, [&] {
    return Verifier(program, {.batch = batch,
                              .threads = command.threads,
                              .levels = command.levels,
                              .runners = target_levels(command.file)});
  });
  RequantizationReport report{.requantization = program.requantization()};
  fmt::print("program of {}, {} thread{}\n", to_string_view(report.requantization),
             command.threads, command.threads == 1 ? "" : "s");
  add_certificates(report, verifier);
  print_certificates(report);
  run_samples(report, {verifier, nullptr, batch}, images, command);
  print_samples(report, verifier.levels());
  return report;
}

/// Throws for levels without a level for comparison.
void check_levels(const std::vector<Level>& levels) {
  const auto runs = [&](Level level) { return std::ranges::count(levels, level) > 0; };
  require<ArgumentError>(!runs(Level::Float) || runs(Level::Exact),
                         "--levels: L0 is compared with L1, which must run as well");
  require<ArgumentError>(
      std::ranges::any_of(levels, [](Level each) { return each != Level::Reference; }),
      "--levels: expected a level to compare with L2");
}

std::string text_of(const std::vector<Requantization>& requantizations) {
  std::vector<std::string_view> names;
  for (const Requantization each : requantizations) names.push_back(to_string_view(each));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns the options for a program, with random inputs if there are no data. Throws
/// ArgumentError for options that only models have.
VerifyCommand for_program(VerifyCommand command, const IntegerProgram& program) {
  require<ArgumentError>(command.program.empty(), "--program: {} is itself a program",
                         command.model);
  require<ArgumentError>(
      command.usual ||
          std::ranges::count(command.requantizations, program.requantization()) > 0,
      "{} is a program of {}, but --levels and --requantization leave only {}", command.model,
      to_string_view(program.requantization()), text_of(command.requantizations));
  if (!command.random && !command.data.given()) command.random = 1000;
  return command;
}

VerifyReport verify_file(const VerifyCommand& command, programs::OutputFiles& files) {
  VerifiedFile verified;
  AnyFile file = load_file(command.model, files, NanValues::Refuse, &verified.tflite);
  VerifyReport report{.threads = command.threads};
  if (const auto* program = std::get_if<IntegerProgram>(&file)) {
    VerifyCommand chosen = for_program(command, *program);
    chosen.file = std::move(verified);
    check_levels(chosen.levels);
    data::Dataset images;
    if (chosen.data.given()) {
      images = load_data(chosen.data, needs_of(chosen.model, *program)).test;
      require_fit(*program, images);
    }
    report.requantizations.push_back(
        naming_nan(images, [&] { return verify_program(*program, images, chosen); }));
    return report;
  }
  SavedModel model = std::move(std::get<SavedModel>(file));
  const bool softmax = !last_softmaxes(model.graph).empty();
  model = before_softmax(std::move(model));
  DataNeeds needs = needs_of(command.model, model.graph);
  needs.otherwise = ", or --random COUNT";
  data::Dataset images;
  if (command.data.given() || !command.random) images = load_data(command.data, needs).test;
  if (softmax) images = without_probabilities(std::move(images), model.graph);
  for (Requantization requantization : command.requantizations) {
    if (!report.requantizations.empty()) console::print("\n");
    report.requantizations.push_back(naming<GraphError>(command.model, [&] {
      return naming_nan(images, [&] {
        return verify_requantization(model, images, command, requantization);
      });
    }));
  }
  return report;
}

}  // namespace

/// Runs levels of arithmetic on all test samples and on random inputs, and prints the
/// differences. Returns false if values differ that must be equal.
bool verify(const VerifyCommand& command) {
  check_levels(command.levels);
  check_options(command.data);
  programs::OutputFiles files;
  files.reads({command.model, command.program});
  files.reads(command.data.paths());
  files.expect_text("--json", command.json);
  VerifyReport report = verify_file(command, files);
  for (const RequantizationReport& each : report.requantizations) {
    report.mismatches += each.mismatches;
  }
  write_report(files, command.json, report);
  files.require_written();
  return report.mismatches == 0;
}

namespace {

/// Returns the named requantization, or for "all" those that all levels support.
std::vector<Requantization> requantizations_of(const std::string& name,
                                               const std::vector<Level>& levels = {}) {
  if (const auto requantization = from_string<Requantization>(name)) return {*requantization};
  std::vector<Requantization> all;
  const RunnerFactories targets = target_levels();
  for (Requantization each : requantization::values) {
    const auto computed = [&](const Level& level) { return computes(level, each, targets); };
    if (std::ranges::all_of(levels, computed)) all.push_back(each);
  }
  require<ArgumentError>(!all.empty(),
                         "--levels: no requantization is supported by all of them");
  return all;
}

/// Returns `L0`, `float` and so on, in the order of levels.
std::vector<std::string> level_names() {
  std::vector<std::string> all;
  for (const Level& level : known_levels()) {
    all.emplace_back(number_of(level));
    all.emplace_back(short_name(level));
  }
  return all;
}

std::vector<Level> levels_of(const std::vector<std::string>& names) {
  std::vector<Level> levels;
  for (const Level& level : known_levels()) {
    if (std::ranges::count(names, number_of(level)) > 0 ||
        std::ranges::count(names, short_name(level)) > 0) {
      levels.push_back(level);
    }
  }
  return levels;
}

void add_levels(CLI::App& verify, std::vector<std::string>& names) {
  CLI::Option& levels =
      *verify
           .add_option(
               "--levels", names,
               "levels of arithmetic to compare, by number or name, always with L2. L4, the "
               "program in C, needs a compiler: that of CC and CFLAGS, otherwise cc -O2. L6 "
               "also needs the tree of CMSIS-NN in QTAPE_CMSIS_NN, L7 libonnxruntime or a "
               "python3 with onnxruntime. L5 and L7, the program as ONNX, support only OnnxQdq. "
               "L8, the kernels of TensorFlow Lite Micro, supports only DoubleRounding and needs "
               "its tree in QTAPE_TFLITE_MICRO and a C++ compiler: that of CXX and CXXFLAGS, "
               "otherwise c++ -O2")
           ->delimiter(',')
           ->capture_default_str();
  programs::take_one_of(levels, level_names());
}

}  // namespace

Command add_verify(CLI::App& app) {
  const auto o = std::make_shared<VerifyCommand>();
  CLI::App& verify = *app.add_subcommand(
      "verify", "Verify that training, reference and int8 agree in every bit");
  add_model(verify, o->model);
  add_data(verify, o->data, o->threads);
  add_json(verify, o->json);
  const auto name = std::make_shared<std::string>("all");
  std::vector<std::string> names = settings::Choices<Requantization>().names();
  names.emplace_back("all");
  CLI::Option& conversion =
      *verify.add_option("--requantization", *name, "conversion of accumulators to codes")
           ->capture_default_str();
  programs::take_one_of(conversion, names);
  verify.add_option(
      "--program", o->program,
      "integer program that the model must convert to; needs one --requantization");
  add_option(verify, "--random", o->random, "random inputs to compare, with or without data",
             {1, 1000000000});
  const auto numbers = std::make_shared<std::vector<std::string>>(
      std::vector<std::string>{"L0", "L1", "L2", "L3"});
  add_levels(verify, *numbers);
  add_option(verify, "--seed", o->seed, "seed of the random inputs", {.low = 0});
  return {&verify, [o, name, numbers, &verify] {
            o->usual = verify.count("--levels") + verify.count("--requantization") == 0;
            programs::refuse_useless(verify, !o->random, "needs --random", {"--seed"});
            o->levels = levels_of(*numbers);
            o->requantizations = requantizations_of(*name, o->levels);
            require<ArgumentError>(o->program.empty() || o->requantizations.size() == 1,
                                   "--program needs one --requantization, got all");
            return qtape::tool::verify(*o) ? 0 : 1;
          }};
}

}  // namespace qtape::tool
