#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "qtape/core/printable.h"
#include "qtape/data/non_finite.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/fit.h"
#include "qtape/model/norms.h"
#include "qtape/model/recipe.h"
#include "qtape/model/targets.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/programs/launch.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/input_ranges.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"
#include "qtape/tools/qtape/train_command.h"
#include "qtape/tools/qtape/train_report.h"

namespace qtape::tool {

namespace {

constexpr int64_t norm_batches = 100;

/// True if training can use the existing quantizers. Those of post-training quantization have
/// fixed scales, which training does not update.
bool has_trainable_quantizers(const Graph& graph) {
  const std::vector<NodeId> ids = quantizers(graph);
  return !ids.empty() && std::ranges::none_of(ids, [&](NodeId id) {
    const auto* op = std::get_if<FakeQuantize>(&graph[id].op);
    return op != nullptr && std::holds_alternative<Fixed>(op->scale_mode);
  });
}

/// Quantizers that are trained.
enum class Trained : uint8_t { None, Own, New };

/// Returns New if the command requests quantizers, or if the model has none that can be
/// trained.
Trained quantizers_for(const Graph& graph, const TrainCommand& command) {
  require<ArgumentError>(!command.in_float || !command.asked,
                         "--float cannot be combined with options of new quantizers");
  require<ArgumentError>(!command.fixed_scales || (!command.in_float && !command.asked),
                         "--fixed-scales cannot be combined with --float or options of new "
                         "quantizers");
  require<ArgumentError>(!command.fixed_scales || !quantizers(graph).empty(),
                         "--fixed-scales: {} has no quantizers", command.model);
  if (command.in_float) return Trained::None;
  if (command.fixed_scales) return Trained::Own;
  return !command.asked && has_trainable_quantizers(graph) ? Trained::Own : Trained::New;
}

/// Returns the recipe for a graph whose norms were not folded yet, and prints the bits of the
/// first and the last layer of new quantizers.
QuantizationRecipe recipe_for(const Graph& graph, Trained trained,
                              const TrainCommand& command) {
  if (trained == Trained::New) {
    const QuantizationRecipe& recipe = command.recipe;
    const auto usual = default_ends_bits(graph, recipe.weight_bits, recipe.activation_bits);
    console::print("{}", ends_note(usual, recipe.ends_bits));
  }
  return with_default_ends(command.recipe, graph);
}

/// Returns a copy of the model to start from, and reports parts without an integer form.
Model starting_point(const Model& model, Trained trained, const TrainCommand& command,
                     TrainReport& report) {
  programs::refuse_useless(*command.line, !has_norms(model.graph()),
                           "has no effect: the model has no batch norms", {"--norms"});
  if (trained == Trained::Own) {
    judge(model.graph(), command.recipe.float_parts, report);
    judge_unquantized(model.graph(), command.recipe.float_parts, report);
    return {model.graph(), model.parameters()};
  }
  Model plain(without_quantizers(model.graph()), model.parameters());
  if (trained == Trained::None) return plain;
  if (!command.asked && !quantizers(model.graph()).empty()) {
    console::print("quantizers with fixed scales are replaced; --fixed-scales keeps them\n");
  }
  plain = with_training_norms(std::move(plain), report);
  Model result = prepared(std::move(plain), command.recipe.float_parts, report);
  programs::refuse_useless(*command.line, !has_norms(result.graph()),
                           "has no effect: all batch norms are folded before training",
                           {"--norms"});
  return result;
}

/// Returns the names of scales and zero points that are trained.
std::vector<std::string> learned_scales(const Graph& graph) {
  std::vector<std::string> names;
  for (NodeId id : quantizers(graph)) {
    for (const NodeId scale : trained_scales(graph, id)) names.push_back(graph[scale].label);
  }
  return names;
}

/// Returns the learning rate for the smallest number of bits.
double default_rate(const Graph& graph) {
  int bits = 16;
  for (const NodeId id : quantizers(graph)) bits = std::min(bits, code_bits(graph, id));
  return default_learning_rate(bits, bits);
}

FitOptions options_of(const TrainCommand& command, const Model& model,
                      const data::Split& data) {
  const CLI::App& line = *command.line;
  programs::refuse_useless(line, learned_scales(model.graph()).empty(),
                           "has no effect: the model has no learned scales", {"--scales-lr"});
  const bool batch_given = programs::given(line, "--batch");
  FitOptions options{
      .epochs = command.epochs,
      .batch = batch_given ? command.batch : std::min(command.batch, data.train.size()),
      .learning_rate = *command.learning_rate,
      .checkpoint = command.checkpoint,
      .resume = command.resume,
      .report = command.report,
      .shards = command.shards,
      .exchange = command.exchange,
      .seed = static_cast<uint64_t>(command.seed),
      .threads = command.threads};
  if (data.test.size() > 0) {
    options.validation = data.test;
    options.validation_name = command.data.holdout > 0 ? "holdout" : "test";
  }
  // With frozen norms, weights would be trained for statistics that are replaced at the end.
  if (command.norms) options.quantization = QuantizationSchedule{};
  options.oscillations = {.damping = command.damping, .freeze_above = command.freeze_above};
  options.groups = groups_of(command, learned_scales(model.graph()));
  return options;
}

/// Prints and returns the score on the test data; empty without a metric.
std::optional<MetricScore> score_of(const char* when, const Model& model,
                                    const TrainCommand& command, const data::Dataset& test) {
  if (test.size() == 0 || !choose_metric(model.graph(), model.answer(), test)) return {};
  Evaluator evaluator(model.graph(), model.parameters(), command.threads, {}, command.exchange);
  const Evaluation result = evaluator.run(test);
  console::print("{}: {}{}\n", when, to_string(*result.score),
                 non_finite_text(result.non_finite, test));
  return result.score;
}

/// Records a score, also as an accuracy if it is one.
void note(const std::optional<MetricScore>& found, TrainReport& report,
          std::optional<double>& score, std::optional<double>& accuracy) {
  if (!found) return;
  report.metric = found->metric;
  score = found->value;
  if (found->metric == MetricKind::Accuracy) accuracy = found->value;
}

/// Throws ArgumentError for given options that have no effect without another one, or together
/// with it.
void refuse_useless(const TrainCommand& command) {
  using programs::refuse_useless;
  const CLI::App& line = *command.line;
  refuse_useless(line, command.teacher.empty(), "needs --teacher",
                 {"--temperature", "--teacher-share"});
  refuse_useless(line, command.in_float, "has no effect with --float",
                 {"--damping", "--freeze-above", "--scales-lr"});
  require<ArgumentError>(
      !command.norms || programs::given(line, "--output"),
      "--norms needs --output: a checkpoint is written before the statistics are re-estimated");
}

/// Trains to the end. Throws Interrupted, which states what remains of the run.
FitResult fit_to_end(Model& model, const data::Dataset& dataset, const FitOptions& options,
                     const TrainCommand& command) {
  try {
    return fit(model, dataset, options);
  } catch (const FitInterrupted& stopped) {
    const std::string left =
        command.checkpoint.empty()
            ? "nothing is kept without --checkpoint"
            : fmt::format("continue with: qtape train {} --resume{}, and the same data",
                          command.checkpoint,
                          command.teacher.empty() ? "" : " --teacher " + command.teacher);
    throw console::Interrupted(stopped.signal(), fmt::format("{}; {}", stopped.what(), left));
  }
}

void add(TrainReport& report, const FitResult& result) {
  for (const EpochResult& each : result.epochs) {
    EpochReport& epoch = report.epochs.emplace_back();
    epoch = {.epoch = each.epoch, .loss = each.loss, .score = each.score};
    if (report.metric == MetricKind::Accuracy) epoch.accuracy = each.score;
  }
  report.steps = result.steps;
  report.ranks = result.ranks;
  report.shards = result.shards;
  report.step_us = result.step_us;
  report.skipped_batches = result.skipped_batches;
  report.non_finite_elements = result.non_finite_elements;
}

/// Trains `model`, which must have its quantizers, and adds the results to the report. Returns
/// the failure of writing the run's record; empty if there was none.
std::string train_model(Model& model, const std::optional<Model>& teacher,
                        TrainCommand& command, const data::Split& data, TrainReport& report) {
  // The checkpoint states the rate, as a later default may differ.
  command.learning_rate = command.learning_rate.value_or(default_rate(model.graph()));
  if (!command.resume) command.small_rates = rates_of_small_values(model);
  say_small_rates(command.small_rates);
  FitOptions options = options_of(command, model, data);
  options.sections["settings"] = settings_of(command, teacher);
  if (teacher) {
    options.distillation = Distillation{.teacher = &*teacher,
                                        .temperature = command.temperature,
                                        .share = command.teacher_share};
  }
  if (options.batch < command.batch) {
    console::print(
        "the data have only {}, fewer than the usual batch of {}; each batch has all of them\n",
        counted(options.batch, "sample"), command.batch);
  }
  const FitResult result = fit_to_end(model, data.train, options, command);
  naming<GraphError>(command.model, [&] { require_finite_losses(result, data.train); });
  if (const std::string skipped = skipped_text(result); !skipped.empty()) {
    console::print("{}{}\n", skipped, data::first_non_finite(data.train));
  }
  if (command.freeze_above) {
    report.frozen_weights = result.frozen_weights;
    console::print("{} weights are frozen\n", *report.frozen_weights);
  }
  if (command.norms) {
    (void)reestimate_norms(model, data.train, norm_batches, options.batch, options.seed,
                           command.threads);
  }
  note(score_of("trained", model, command, data.test), report, report.score, report.accuracy);
  say_if_worse(report);
  add(report, result);
  return result.report_failure;
}

/// Returns a text of the losses that are added up.
std::string loss_text(const Graph& graph) {
  const std::vector<NodeId> losses = graph.losses();
  const std::vector<bool> needed = needed_for(graph, losses);
  std::vector<std::string> parts;
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    if (!needed[at(id)] || !is_any<SoftmaxCrossEntropy, MeanSquaredError>(node.op)) continue;
    const NodeId target = origin_of(graph, node.operands[1]);
    const bool classes = std::holds_alternative<SoftmaxCrossEntropy>(node.op);
    parts.push_back(fmt::format(
        "{} '{}'", classes ? "cross-entropy of the labels" : "mean squared error from",
        printable(graph[target].label)));
  }
  return parts.empty() ? "that of the model" : fmt::format("{}", fmt::join(parts, " + "));
}

/// Outputs of the run, of which the process that leads writes all.
void expect_outputs(TrainCommand& command, programs::OutputFiles& files) {
  // A pipe that was read from cannot be written.
  std::error_code none;
  if (command.resume && command.checkpoint.empty() &&
      std::filesystem::is_regular_file(command.model, none)) {
    command.checkpoint = command.model;
  }
  const bool kept = !command.output.empty() || !command.checkpoint.empty();
  const bool leads = programs::leads(command.exchange);
  if (!leads) command.output = command.json = command.report = {};
  // The model may be replaced, its teacher and its data may not.
  files.reads({command.teacher});
  files.reads(command.data.paths());
  files.expect_unread("--output", command.output);
  if (leads && command.resume) files.expect_unread("--checkpoint", command.checkpoint);
  files.expect_run("--report", command.report);
  files.reads({command.model});
  if (leads && !command.resume) files.expect_unread("--checkpoint", command.checkpoint);
  files.expect_text("--json", command.json);
  require<ArgumentError>(kept,
                         "--output is missing: without it, or --checkpoint, the trained model "
                         "would be lost");
}

/// Returns the model with calibrated quantizers, with which training starts.
Model with_new_quantizers(const Model& model, const QuantizationRecipe& recipe,
                          const TrainCommand& command, const data::Split& data,
                          TrainReport& report) {
  Model result =
      quantized(model, recipe, data.train, default_calibration_samples, command.threads);
  judge_quantized(result.graph(), command.recipe.float_parts, report);
  warn_of_far_samples(result, data.train, default_calibration_samples);
  note_narrow_columns(result, data.train, default_calibration_samples);
  note(score_of("with its quantizers calibrated", result, command, data.test), report,
       report.score_calibrated, report.accuracy_calibrated);
  return result;
}

void save(const Model& model, const std::string& output, programs::OutputFiles& files) {
  files.save(output, [&](const std::string& path) { model.save(path); });
  say_warnings(model.graph(), model.parameters(), output);
}

}  // namespace

/// Fine-tunes a saved model, with its own quantizers or with new ones that are calibrated
/// first, and prints the score on the test data.
void train(TrainCommand& command) {
  programs::OutputFiles files;
  expect_outputs(command, files);
  Model model(read_model(command.model, files));
  std::optional<Model> teacher;
  if (!command.teacher.empty()) teacher.emplace(read_model(command.teacher, files));
  if (command.resume) take_settings(command, model, teacher);
  refuse_useless(command);
  const Trained trained = quantizers_for(model.graph(), command);
  TrainReport report;
  std::optional<Model> start;
  if (!command.resume) {
    start = naming<GraphError>(command.model,
                               [&] { return starting_point(model, trained, command, report); });
  }
  const data::Split data = load_data(command.data, needs_of(command.model, model.graph()));
  if (teacher && compares_classes(teacher->graph(), data.train)) {
    teacher = before_softmax(std::move(*teacher));
  }
  if (!command.resume) {
    note(score_of("as it is", model, command, data.test), report, report.score_before,
         report.accuracy_before);
    if (compares_classes(start->graph(), data.train)) start = before_softmax(std::move(*start));
    // The norms of the model are folded in the one to start from.
    const QuantizationRecipe recipe = recipe_for(model.graph(), trained, command);
    model = with_loss(std::move(*start), data.train);
    console::print("loss: {}\n", loss_text(model.graph()));
    if (trained == Trained::New) {
      model = with_new_quantizers(model, recipe, command, data, report);
    }
  }
  files.add_failure(train_model(model, teacher, command, data, report));
  save(model, command.output, files);
  write_report(files, command.json, report);
  files.require_written();
}

Command add_train(CLI::App& app) {
  const auto o = std::make_shared<TrainCommand>();
  CLI::App& train =
      *app.add_subcommand("train", "Fine-tune a model with its own or new quantizers");
  add_model(train, o->model);
  add_data(train, o->data, o->threads);
  add_json(train, o->json);
  o->data.trains = true;
  train.add_option("--test-input", o->data.test_input, "test inputs, in the same formats");
  train.add_option("--test-labels", o->data.test_labels,
                   "labels or targets of the test inputs");
  train.add_option("-o,--output", o->output,
                   "write the trained model here; required unless --checkpoint is given");
  add_settings<TrainRun>(train, *o);
  const auto recipe = add_settings(train, o->recipe);
  train.get_option("--weight-bits")
      ->description(
          "bits of weights; if given, the model gets new quantizers; otherwise only if it has "
          "none to train, of 8 bits")
      ->default_str("");
  train.get_option("--activation-bits")
      ->description("the same for activations")
      ->default_str("");
  add_settings<FewBits>(train, *o);
  add_float_parts(train, o->recipe.float_parts);
  train.add_option("--checkpoint", o->checkpoint, "write a checkpoint here every epoch");
  train.add_flag(
      "--resume", o->resume,
      "the model is a checkpoint of this command: continue its run, with its settings; checkpoints "
      "are also written to it unless --checkpoint names another file");
  train.add_option("--report", o->report, programs::report_help);
  return {&train, [o, recipe, &train] {
            o->asked = programs::any_given(recipe);
            o->line = &train;
            programs::Launch launch("qtape");
            o->exchange = launch.exchange();
            launch.run([&] { qtape::tool::train(*o); });
            return 0;
          }};
}

}  // namespace qtape::tool
