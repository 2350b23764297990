#include "qtape/deploy/verify.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "qtape/core/printable.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/model/feed.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/levels.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"
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
  uint64_t seed = 1;  ///< of the random inputs
  std::vector<Level> levels = {usual_levels.begin(), usual_levels.end()};
  int threads = default_threads();
  std::string json = {};
};

namespace {

struct LevelDifferences {
  Level level = Level::Float;
  int64_t differ = 0;

  static constexpr auto fields() {
    using D = LevelDifferences;
    return std::tuple{
        field("level", &D::level, "of arithmetic"),
        field("differ", &D::differ, "integers that differ from L2; for L0, from L1")};
  }
};

struct LayerReport {
  std::string label;
  bool accumulators = false;
  int64_t compared = 0;
  std::vector<LevelDifferences> levels = {};

  std::optional<int64_t> at(Level level) const {
    for (const LevelDifferences& each : levels) {
      if (each.level == level) return each.differ;
    }
    return std::nullopt;
  }

  static constexpr auto fields() {
    using L = LayerReport;
    return std::tuple{field("label", &L::label, "of the node"),
                      field("accumulators", &L::accumulators, "true for accumulators"),
                      field("compared", &L::compared, "integers"),
                      field("levels", &L::levels, "levels that have values of the node")};
  }
};

struct LayerCertificate : Certificate {
  std::string label;

  static constexpr auto fields() {
    return std::tuple_cat(std::tuple{field("label", &LayerCertificate::label, "of the node")},
                          Certificate::fields());
  }
};

struct LevelScore {
  Level level = Level::Float;
  double score = 0;
  std::optional<double> accuracy = {};

  static constexpr auto fields() {
    using A = LevelScore;
    return std::tuple{field("level", &A::level, "of arithmetic"),
                      field("score", &A::score, "of the first output by the metric"),
                      field("accuracy", &A::accuracy, "percent; null for other metrics")};
  }
};

struct RequantizationReport {
  Requantization requantization = Requantization::FloatMultiply;
  std::optional<std::string> program = {};
  std::vector<LayerCertificate> certificates = {};
  std::string backend = {};
  std::vector<LayerReport> layers = {};
  int64_t output_float_exact = 0;
  int64_t output_mismatches = 0;
  std::optional<MetricKind> metric = {};
  std::vector<LevelScore> scores = {};
  std::optional<int64_t> samples = {};
  int64_t random_inputs = 0;
  int64_t mismatches = 0;
  std::optional<int64_t> seen_differently = {};
  std::optional<Mismatch> first_mismatch = {};

  static constexpr auto fields() {
    using R = RequantizationReport;
    return std::tuple{
        field("requantization", &R::requantization, "conversion of accumulators to codes"),
        field("program", &R::program, "file that the model converts to, otherwise null"),
        field("certificates", &R::certificates, "of products with weights"),
        field("backend", &R::backend, "multiplication in L3, one line per product"),
        field("layers", &R::layers, "integers that differ"),
        field("output_float_exact", &R::output_float_exact, "f32 outputs that differ in L0"),
        field("output_mismatches", &R::output_mismatches, "other f32 outputs that differ"),
        field("metric", &R::metric, "of the scores; null without labels or targets"),
        field("accuracies", &R::scores, "scores of each level; empty without a metric"),
        field("samples", &R::samples, "of the data; null without data"),
        field("random_inputs", &R::random_inputs, "in addition to the data"),
        field("mismatches", &R::mismatches, "between all levels except L0"),
        field("seen_differently", &R::seen_differently, "samples classified differently"),
        field("first_mismatch", &R::first_mismatch, "integers; null if none differ")};
  }
};

struct VerifyReport {
  int64_t threads = 0;
  int64_t mismatches = 0;
  std::vector<RequantizationReport> requantizations;

  static constexpr auto fields() {
    using R = VerifyReport;
    return std::tuple{field("threads", &R::threads, "that were used"),
                      field("mismatches", &R::mismatches, "of all requantizations"),
                      field("requantizations", &R::requantizations, "each by itself")};
  }
};

void add_layers(RequantizationReport& report, const Verifier& verifier) {
  for (const LayerComparison& layer : verifier.layers()) {
    LayerReport& added = report.layers.emplace_back();
    added.label = layer.label;
    added.accumulators = layer.accumulators;
    added.compared = layer.compared;
    for (const auto& [level, differ] : layer.differences) {
      added.levels.push_back({level, differ});
    }
  }
  report.output_float_exact = verifier.float_output_mismatches();
  report.output_mismatches = verifier.output_mismatches();
}

void add_certificates(RequantizationReport& report, const Verifier& verifier) {
  for (const IntegerNode& node : verifier.program().nodes()) {
    if (const QuantizedWeights* weights = weights_of(node.op)) {
      report.certificates.push_back({weights->certificate, node.label});
    }
  }
  report.backend = verifier.report();
}

/// Returns the levels that must agree: `L1, L2 and L3`.
std::string agreeing(const std::vector<Level>& levels) {
  std::vector<std::string_view> names;
  for (Level level : levels) {
    if (level != Level::Float) names.push_back(number_of(level));
  }
  if (names.size() == 1) return std::string(names[0]);
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "),
                     names.back());
}

void print_layers(const RequantizationReport& report, const std::vector<Level>& levels) {
  std::string header = fmt::format("{:<28} {:>12}", "mismatching integers", "compared");
  for (Level level : levels) {
    if (level == Level::Reference) continue;
    header += fmt::format(" {:>12}", fmt::format("{} and {}", number_of(level),
                                                 level == Level::Float ? "L1" : "L2"));
  }
  fmt::print("{}\n", header);
  for (const LayerReport& layer : report.layers) {
    std::string line = fmt::format(
        "{:<28} {:>12}", printable(layer.label) + (layer.accumulators ? " (accumulators)" : ""),
        layer.compared);
    for (Level level : levels) {
      if (level == Level::Reference) continue;
      const auto differ = layer.at(level);
      line += fmt::format(" {:>12}", differ ? fmt::format("{}", *differ) : std::string());
    }
    fmt::print("{}\n", line);
  }
  const bool floats = std::ranges::count(levels, Level::Float) > 0;
  fmt::print(
      "outputs, f32: {} differ between {}{}\n", report.output_mismatches, agreeing(levels),
      floats ? fmt::format("; {} differ in L0, which sums floats", report.output_float_exact)
             : "");
}

void print_certificates(const RequantizationReport& report) {
  for (const LayerCertificate& each : report.certificates) {
    fmt::print("certificate of {}: {}\n", printable(each.label), to_string(each));
  }
  if (!report.backend.empty()) fmt::print("L3 runs\n{}", report.backend);
}

/// Returns the attributes that differ; empty for equal ops.
template <class T>
std::string differing(const T& a, const IntegerOp& other) {
  const T* b = std::get_if<T>(&other);
  if (b == nullptr) return " op";
  std::string names;
  for_each_field<T>([&](const auto& each) {
    if (!(a.*each.member == b->*each.member))
      names += fmt::format("{}{}", names.empty() ? " " : ", ", each.key);
  });
  return names;
}

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
    const std::string names = std::visit(
        [&](const auto& op) { return differing(op, converted[id].op); }, saved[id].op);
    return fmt::format("{} differs in{}", saved.describe(id),
                       names.empty() ? " label or operands" : names);
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
  if (batched != converted) {
    fail<GraphError>("{}: differs from the conversion of the model: {}", path,
                     difference(batched, converted));
  }
}

void add_scores(RequantizationReport& report, const LevelScores& found) {
  report.metric = found.metric;
  for (const auto& [level, score] : found.scores) {
    LevelScore& added = report.scores.emplace_back();
    added = {.level = level, .score = score};
    if (found.metric == MetricKind::Accuracy) added.accuracy = score;
  }
  const auto differs = found.seen_differently.find(Level::Float);
  if (differs != found.seen_differently.end()) report.seen_differently = differs->second;
}

/// Runs the data, if there are any, and random inputs.
void run_samples(RequantizationReport& report, Samples samples, const data::Dataset& dataset,
                 const VerifyCommand& command) {
  Verifier& verifier = samples.verifier;
  const bool seen = command.data.given();
  report.random_inputs = command.random.value_or(0);
  const auto scores = seen ? samples.run_data(dataset) : std::nullopt;
  samples.run_random(report.random_inputs, command.seed);
  add_layers(report, verifier);
  if (scores) add_scores(report, *scores);
  if (seen) report.samples = dataset.size();
  report.mismatches = verifier.mismatches();
  report.first_mismatch = verifier.first_mismatch();
}

void print_samples(const RequantizationReport& report, const std::vector<Level>& levels) {
  print_layers(report, levels);
  for (const LevelScore& each : report.scores) {
    fmt::print("{}: {}\n", to_string_view(each.level),
               to_string(MetricScore{*report.metric, each.score}));
  }
  if (report.mismatches == 0) {
    fmt::print("{} agree in every integer and every output\n", agreeing(levels));
  }
  fmt::print(
      "{}{} random inputs: {} mismatches between {}{}\n\n",
      report.samples ? fmt::format("{} samples and ", *report.samples) : "",
      report.random_inputs, report.mismatches, agreeing(levels),
      report.seen_differently
          ? fmt::format("; L0 and L1 classify {} samples differently", *report.seen_differently)
          : "");
  if (report.mismatches == 0) return;
  fmt::print(stderr, "qtape: mismatch: {}\n",
             report.first_mismatch ? to_string(*report.first_mismatch)
                                   : "outputs differ in their bits");
}

/// Verifies one requantization. Each part is printed as soon as it is known.
RequantizationReport verify_requantization(SavedModel& model, const data::Dataset& images,
                                           const VerifyCommand& command,
                                           Requantization requantization) {
  const int64_t batch = verification_batch(model.graph);
  Verifier verifier(model.graph, model.parameters,
                    {.convert = {.requantization = requantization},
                     .batch = batch,
                     .threads = command.threads,
                     .levels = command.levels,
                     .runners = target_levels()});
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
  run_samples(report, {verifier, model.graph, batch}, images, command);
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

}  // namespace

/// Runs levels of arithmetic on all test samples and on random inputs, and prints the
/// differences. Returns false if values differ that must be equal.
bool verify(const VerifyCommand& command) {
  check_levels(command.levels);
  examples::OutputFiles files;
  files.reads({command.model, command.program});
  files.reads(command.data.paths());
  files.expect_text("--json", command.json);
  SavedModel model = before_softmax(load_model(command.model));
  DataNeeds needs = needs_of(command.model, model.graph);
  needs.otherwise = ", or --random COUNT";
  data::Dataset images;
  if (command.data.given() || !command.random) images = load_data(command.data, needs).test;
  VerifyReport report{.threads = command.threads};
  for (Requantization requantization : command.requantizations) {
    report.requantizations.push_back(
        verify_requantization(model, images, command, requantization));
    report.mismatches += report.requantizations.back().mismatches;
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

/// Returns `L0` and so on, in the order of levels.
std::vector<std::string> level_numbers() {
  std::vector<std::string> all;
  for (const Level& level : known_levels()) all.emplace_back(number_of(level));
  return all;
}

std::vector<Level> levels_of(const std::vector<std::string>& numbers) {
  std::vector<Level> levels;
  for (const Level& level : known_levels()) {
    if (std::ranges::count(numbers, number_of(level)) > 0) levels.push_back(level);
  }
  return levels;
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
  verify.add_option("--requantization", *name, "conversion of accumulators to codes")
      ->transform(CLI::IsMember(names, CLI::ignore_case))
      ->capture_default_str();
  verify.add_option(
      "--program", o->program,
      "integer program that the model must convert to; needs one --requantization");
  add_option(verify, "--random", o->random, "random inputs to compare, with or without data",
             {0, 1000000000});
  const auto numbers = std::make_shared<std::vector<std::string>>(
      std::vector<std::string>{"L0", "L1", "L2", "L3"});
  verify
      .add_option("--levels", *numbers,
                  "levels of arithmetic to compare, always with L2. L4, the program in C, "
                  "needs a compiler: that of CC and CFLAGS, otherwise cc -O2. L6 also needs "
                  "the tree of CMSIS-NN in QTAPE_CMSIS_NN, L7 a python3 with onnxruntime. L5 "
                  "and L7, the program as ONNX, support only OnnxQdq")
      ->delimiter(',')
      ->check(CLI::IsMember(level_numbers()))
      ->capture_default_str();
  add_option(verify, "--seed", o->seed, "seed of the random inputs", {.low = 0});
  return {&verify, [o, name, numbers] {
            o->levels = levels_of(*numbers);
            o->requantizations = requantizations_of(*name, o->levels);
            require<ArgumentError>(o->program.empty() || o->requantizations.size() == 1,
                                   "--program needs one --requantization, got all");
            return qtape::tool::verify(*o) ? 0 : 1;
          }};
}

}  // namespace qtape::tool
