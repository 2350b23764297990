#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "qtape/calibrate/calibration.h"
#include "qtape/core/printable.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/quantization.h"
#include "qtape/model/recipe.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/programs/console/terminal.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/answer_error.h"
#include "qtape/tools/qtape/calibrated_quantizer.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/input_ranges.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

struct CalibrateOptions {
  std::string model;
  DataOptions data;
  std::string save;       ///< file for the calibrated model; empty: none
  int64_t images = 1000;  ///< number of training images for calibration
  int weight_bits = 8;    ///< of quantizers that are added to a model without any
  int activation_bits = 8;
  std::optional<int> cell_bits = std::nullopt;
  bool signed_activations = false;  ///< as of QuantizationRecipe
  bool float_parts = false;         ///< allows parts without an integer form
  bool complete = false;            ///< adds quantizers to those of the model, which are kept
  std::optional<CodeRange> weight_codes = std::nullopt;
  /// The name of a method, `usual` for `default_method` of each quantizer, `search` for the
  /// method with the least output error for each quantizer, or `all` for a table of all
  /// methods.
  std::string observer = "usual";
  std::string weight_observer = "usual";
  /// Name of an option of new quantizers that was given; empty: none was.
  std::string of_new = {};
  int threads = default_threads();
  std::string json = {};

  static constexpr auto fields() {
    using O = CalibrateOptions;
    return std::tuple{
        setting("weight_observer", &O::weight_observer,
                "observer of weights, by name; usual: like --observer; --observer search tries "
                "all for weights"),
        setting("images", &O::images, "number of training samples for calibration",
                {1, 1000000}),
        setting("float_parts", &O::float_parts, float_parts_help),
        setting("complete", &O::complete,
                "add the quantizers that a model with others lacks, calibrate them, and keep "
                "the scales of the others"),
        setting("weight_bits", &O::weight_bits, "bits of the weights of new quantizers",
                {2, 16}),
        setting("activation_bits", &O::activation_bits,
                "bits of the activations of new quantizers", {1, 16}),
        setting("cell_bits", &O::cell_bits, cell_bits_help, {2, 16}),
        setting("signed_activations", &O::signed_activations,
                "symmetric codes of both signs for activations, as TensorFlow Lite needs them "
                "for 16 bits")};
  }
};

namespace {

/// Name of the choice of the usual observer for each quantizer.
constexpr std::string_view default_choice = "usual";

/// Result of calibration by one observer.
struct ObserverReport : EvaluationReport, AnswerErrorReport {
  std::string observer;

  static constexpr auto fields() {
    return std::tuple_cat(
        std::tuple{field("observer", &ObserverReport::observer, "its name, or search")},
        EvaluationReport::fields(), AnswerErrorReport::fields());
  }
};

struct CalibrateReport : Preparation {
  int64_t samples = 0;
  EvaluationReport in_float;
  std::vector<ObserverReport> observers;
  std::vector<CalibratedQuantizer> quantizers;

  static constexpr auto fields() {
    using R = CalibrateReport;
    return std::tuple_cat(
        std::tuple{field("samples", &R::samples, "from which scales are calibrated"),
                   field("float", &R::in_float, "without quantizers"),
                   field("observers", &R::observers, "score with each observer"),
                   field("quantizers", &R::quantizers, "of one observer; empty for several")},
        Preparation::fields());
  }
};

/// Returns the most bits of the codes of values that depend on inputs; 0 without such codes.
int max_activation_bits(const Graph& graph) {
  const std::vector<bool> constant = constant_nodes(graph);
  int most = 0;
  for (const NodeId id : quantizers(graph)) {
    if (!constant[at(id)]) most = std::max(most, code_bits(graph, id));
  }
  return most;
}

/// Prints how many quantizers completion added, and warns if others have more bits.
void say_added(const Graph& before, const Graph& after, const CalibrateOptions& options) {
  const auto added = static_cast<int64_t>(quantizers(after).size() - quantizers(before).size());
  console::print("added {}, with {} bits for activations\n", counted(added, "quantizer"),
                 options.activation_bits);
  const int most = max_activation_bits(before);
  if (added == 0 || most <= options.activation_bits) return;
  console::print(
      "warning: other activations have {} bits; --activation-bits {} adds such quantizers\n",
      most, most);
}

/// Returns the model with its own quantizers, or with new ones whose states calibration fills.
Model with_some_quantizers(Model model, const CalibrateOptions& options, Preparation& report) {
  const bool has_some = !quantizers(model.graph()).empty();
  require<ArgumentError>(has_some || !options.complete, "--complete: {} has no quantizers",
                         options.model);
  if (has_some && !options.complete) {
    require<ArgumentError>(options.of_new.empty(),
                           "{}: {} has quantizers of its own, which calibration keeps; "
                           "--complete adds those that are missing, qtape train replaces them",
                           options.of_new, options.model);
    judge(model.graph(), options.float_parts, report);
    judge_unquantized(model.graph(), options.float_parts, report);
    return before_softmax(std::move(model));
  }
  model = before_softmax(prepared(std::move(model), options.float_parts, report));
  InsertOptions made =
      calibrated_quantizers(options.weight_bits, options.activation_bits, options.weight_codes);
  if (options.signed_activations) {
    made.input = with_signed_codes(std::get<FakeQuantize>(*made.input));
  }
  if (options.cell_bits) {
    made.cell =
        std::get<FakeQuantize>(*made.input).with(&FakeQuantize::bits, *options.cell_bits);
  }
  Model added = with_quantizers(model, made);
  if (has_some) say_added(model.graph(), added.graph(), options);
  model = std::move(added);
  judge_quantized(model.graph(), options.float_parts, report);
  return model;
}

std::set<std::string> names_of(const Parameters& parameters) {
  std::set<std::string> names;
  for (const ParameterEntry& each : parameters.entries()) names.insert(each.name);
  return names;
}

/// Returns the labels of the quantizers whose states are in `own`, and of those without
/// states.
std::vector<std::string> quantizers_with_states(const Graph& graph,
                                                const std::set<std::string>& own) {
  std::vector<std::string> labels;
  for (const NodeId id : quantizers(graph)) {
    const auto states = std::span(graph[id].operands).subspan(1);
    const bool added = std::ranges::any_of(states, [&](NodeId state) {
      return is_persistent(graph[state].op) && !own.contains(graph[state].label);
    });
    if (!added) labels.push_back(graph.name(id));
  }
  return labels;
}

/// Returns "97.10 %", or the hash of the answers if there is no metric.
std::string score(const EvaluationReport& result) {
  return result.score ? metric_of(*result.metric).text(*result.score)
                      : "outputs sha256 " + result.outputs_sha256;
}

/// Returns the unit of scores that are not percentages: " (mean squared error, lower is
/// better)".
std::string heading(const EvaluationReport& result) {
  if (!result.metric || result.metric == MetricKind::Accuracy) return {};
  const Metric metric = metric_of(*result.metric);
  return fmt::format(" ({}, {} is better)", metric.name,
                     metric.higher_is_better ? "higher" : "lower");
}

void show(const CalibrationProgress& progress) {
  console::redraw(fmt::format("{} of {}: {}, batch {}", progress.stage_index + 1,
                              progress.stages, printable(progress.stage), progress.batch));
}

std::vector<NodeCalibration> run(Tape& tape, const BatchSource& batches,
                                 const CalibrateOptions& options,
                                 const std::vector<std::string>& keep,
                                 const std::string& observer) {
  CalibrationOptions calibration{.on_batch = show, .keep = keep};
  if (options.weight_observer != default_choice) {
    calibration.constant_method = observer_method(options.weight_observer);
  }
  if (observer == default_choice) return calibrate(tape, batches, calibration);
  if (observer != "search") {
    calibration.method = observer_method(observer);
    return calibrate(tape, batches, calibration);
  }
  return search_calibration(tape, batches, methods_from_data(), show, keep);
}

/// Returns the names of the methods that need data.
std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const ObserverMethod& method : methods_from_data()) names.emplace_back(name_of(method));
  return names;
}

std::vector<std::string> observers_of(const CalibrateOptions& options) {
  if (options.observer != "all") return {options.observer};
  std::vector<std::string> observers = method_names();
  // A search chooses the methods of weights itself.
  if (options.weight_observer == default_choice) observers.emplace_back("search");
  return observers;
}

/// Prints warnings and the scales of a calibration by one observer.
void show_details(const Model& model, const data::Dataset& data,
                  const std::vector<NodeCalibration>& nodes, CalibrateReport& report) {
  warn_of_answer_error(report.observers[0], model.graph());
  warn_of_score(report.in_float, report.observers[0], model.graph());
  warn_of_far_samples(model, data, report.samples);
  note_narrow_columns(model, data, report.samples);
  for (const NodeCalibration& node : nodes) {
    report.quantizers.push_back(report_of(node));
    print(report.quantizers.back());
  }
}

/// Calibrates by each observer in turn and prints the results.
void calibrate_all(Model& model, const data::Split& data, const CalibrateOptions& options,
                   const std::vector<std::string>& keep, CalibrateReport& report) {
  const int64_t extent = calibration_batch(std::min(data.train.size(), options.images));
  require<ArgumentError>(extent >= 1, "there are no samples to calibrate with");
  require_fit(model.graph(), model.graph().answers(), data.test);
  Tape tape(model.graph().with_batch(extent), model.parameters(),
            {.outputs = model.outputs(), .threads = options.threads});
  Evaluator evaluator(model.graph(), model.parameters(), options.threads);
  const BatchSource batches = batches_of(data.train, options.images);
  AnswerComparison comparison(model.graph());
  comparison.leave_out(far_samples(model, data.test));
  evaluator.on_answers = [&](auto answers) { comparison.keep(answers); };
  report.in_float = tool::report_of(evaluator.run(data.test, mode::float_eval));
  evaluator.on_answers = [&](auto answers) { comparison.compare(answers); };
  // Without a test set, the samples of --input serve for both.
  const bool same = !options.data.input.empty() && options.data.holdout == 0;
  report.samples = calibrated_samples(data.train, options.images);
  fmt::print("calibration with {} of {} samples\n", report.samples, data.train.size());
  fmt::print("{}{}, without quantizers{} {}{}{}\n",
             same ? "" : "test: ", counted(data.test.size(), "sample"),
             report.in_float.score ? "" : ":", score(report.in_float), heading(report.in_float),
             non_finite_text(report.in_float.non_finite_answers, data.test));
  const std::vector<std::string> observers = observers_of(options);
  for (const std::string& observer : observers) {
    const auto nodes = run(tape, batches, options, keep, observer);
    comparison.restart();
    const EvaluationReport evaluation = tool::report_of(evaluator.run(data.test));
    report.observers.push_back({evaluation, tool::report_of(comparison), observer});
    console::clear_line();
    const ObserverReport& with = report.observers.back();
    fmt::print("{:<14} {}{}{}\n", observer, score(with), answer_error_text(with),
               non_finite_text(with.non_finite_answers, data.test));
    if (observers.size() == 1) show_details(model, data.train, nodes, report);
  }
}

}  // namespace

/// Calibrates a model's quantizers, adding them if there are none, and prints the remaining
/// accuracy on the test images.
void calibrate(const CalibrateOptions& options) {
  require<ArgumentError>(options.observer != "all" || options.save.empty(),
                         "--output needs one observer, got all");
  require<ArgumentError>(
      options.observer != "search" || options.weight_observer == default_choice,
      "--weight-observer has no effect with --observer search, which tries all for weights");
  programs::OutputFiles files;
  // The model may be replaced, its data may not.
  files.reads(options.data.paths());
  files.expect_unread("--output", options.save);
  files.reads({options.model});
  files.expect_text("--json", options.json);
  Model loaded(read_model(options.model, files));
  const auto sections = loaded.sections();
  const size_t before = quantizers(loaded.graph()).size();
  const bool softmax = !last_softmaxes(loaded.graph()).empty();
  CalibrateReport report;
  const std::set<std::string> own = names_of(loaded.parameters());
  Model model = naming<GraphError>(
      options.model, [&] { return with_some_quantizers(std::move(loaded), options, report); });
  const auto keep = options.complete ? quantizers_with_states(model.graph(), own)
                                     : std::vector<std::string>();
  require<ArgumentError>(!options.complete || keep.size() < quantizers(model.graph()).size(),
                         "--complete: {} lacks no quantizers", options.model);
  data::Split data = load_data(options.data, needs_of(options.model, model.graph()));
  if (softmax) data.test = without_probabilities(std::move(data.test), model.graph());
  naming<GraphError>(options.model, [&] { calibrate_all(model, data, options, keep, report); });
  // New quantizers end the run of a checkpoint.
  const bool continues = quantizers(model.graph()).size() == before;
  if (!continues && !sections.empty() && !options.save.empty()) {
    fmt::print("the progress of the checkpoint is left out: its run had fewer quantizers\n");
  }
  files.save(options.save, [&](const std::string& path) {
    save_model(path, model.graph(), model.parameters(),
               continues ? sections : std::map<std::string, Section>());
  });
  say_warnings(model.graph(), model.parameters(), options.save);
  write_report(files, options.json, report);
  files.require_written();
}

Command add_calibrate(CLI::App& app) {
  const auto o = std::make_shared<CalibrateOptions>();
  CLI::App& calibrate = *app.add_subcommand(
      "calibrate",
      "Calibrate quantizers on training samples, adding quantizers if the model has none");
  add_model(calibrate, o->model);
  add_data(calibrate, o->data, o->threads);
  add_json(calibrate, o->json);
  calibrate.add_option("-o,--output,--save", o->save, "write the calibrated model here");
  std::vector<std::string> observers = method_names();
  observers.emplace(observers.begin(), default_choice);
  const std::vector<std::string> of_weights = observers;
  observers.insert(observers.end(), {"search", "all"});
  CLI::Option& observer = *calibrate.add_option(
      "--observer", o->observer,
      "usual: Lsq for learned scales and Mse for learned limits of at most 4 bits, otherwise "
      "MinMax; search: the best for "
      "each quantizer; all: a table");
  programs::take_one_of(observer, std::move(observers));
  observer.capture_default_str();
  add_settings(calibrate, *o);
  programs::take_one_of(*calibrate.get_option("--weight-observer"), of_weights);
  programs::add_setting(calibrate, &QuantizationRecipe::weight_codes, o->weight_codes);
  return {&calibrate, [o, &calibrate] {
            for (const char* name : {"--weight-bits", "--activation-bits", "--cell-bits",
                                     "--signed-activations", "--weight-codes"}) {
              if (calibrate.count(name) > 0) o->of_new = name;
            }
            qtape::tool::calibrate(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
