#include "qtape/model/training/fit_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "qtape/core/pattern.h"
#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/engine/batch_slices.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/machine.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/training/exact.h"
#include "qtape/io/sha256.h"
#include "qtape/model/targets.h"
#include "qtape/model/training/progress.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape {
namespace {

// With fewer bits, sums of codes that are exactly 0 cost accuracy.
constexpr int min_bits_on_codes = 4;

/// Returns the loss of a model after checking that the model can be trained on `dataset`.
NodeId loss_of(const Model& model, const data::Dataset& dataset) {
  check(model.loss().has_value(), "the model has no loss, which training needs");
  const Node& loss = model.graph()[*model.loss()];
  if (!std::holds_alternative<SoftmaxCrossEntropy>(loss.op)) return *model.loss();
  const int64_t classes = model.graph()[loss.operands[0]].type.shape[-1];
  if (const auto target = dataset.target()) require_classes(dataset, *target, classes);
  return *model.loss();
}

std::string hash_of(const Graph& graph) {
  const std::string text = to_string(graph);
  return sha256_hex(std::as_bytes(std::span(text)));
}

constexpr int64_t max_default_shards = 8;

/// Returns the number of shards of the run that the options continue, if there is one.
std::optional<int64_t> kept_shards(const Model& model, const FitOptions& options) {
  if (!options.resume) return std::nullopt;
  const auto in = [](const std::map<std::string, Section>& sections) -> std::optional<int64_t> {
    const auto found = sections.find("progress");
    if (found == sections.end()) return std::nullopt;
    return shards_of(found->second);
  };
  if (const auto kept = in(model.sections())) return kept;
  std::error_code ignored;
  if (options.checkpoint.empty() || !std::filesystem::exists(options.checkpoint, ignored)) {
    return std::nullopt;
  }
  return in(load_model(options.checkpoint).sections);
}

void check_display(const FitOptions& options) {
  const auto digits = [](std::string_view name, int value) {
    require<ArgumentError>(value >= 0 && value <= 17, "{} must be in 0..17, got {}", name,
                           value);
  };
  digits("loss_digits", options.loss_digits);
  if (options.metric && options.metric->digits)
    digits("metric: digits", *options.metric->digits);
}

void check_checkpoint(const FitOptions& options) {
  std::error_code ignored;
  require<ArgumentError>(!std::filesystem::is_directory(options.checkpoint, ignored),
                         "checkpoint: {} is a folder", printable(options.checkpoint));
  require<ArgumentError>(options.checkpoint_every == 0 || !options.checkpoint.empty(),
                         "checkpoint_every needs a checkpoint");
  for (const char* own : {"optimizer", "schedule", "progress", "best", "oscillations"}) {
    require<ArgumentError>(!options.sections.contains(own),
                           "sections: '{}' is written by fit itself", own);
  }
}

}  // namespace

void check_options(const FitOptions& options) {
  const auto at_least = [](std::string_view name, int64_t least, int64_t value) {
    require<ArgumentError>(value >= least, "{} must be at least {}, got {}", name, least,
                           value);
  };
  at_least("epochs", 1, options.epochs);
  // The number of steps and of samples seen is a product of epochs.
  constexpr int64_t max_epochs = std::numeric_limits<int32_t>::max();
  require<ArgumentError>(options.epochs <= max_epochs, "epochs must be at most {}, got {}",
                         max_epochs, options.epochs);
  at_least("threads", 1, options.threads);
  at_least("patience", 0, options.patience);
  at_least("checkpoint_every", 0, options.checkpoint_every);
  require<ArgumentError>(
      std::isfinite(options.max_gradient_norm) && options.max_gradient_norm >= 0,
      "max_gradient_norm must be finite and at least 0, got {}", options.max_gradient_norm);
  require<ArgumentError>(!options.score || (options.validation && !options.metric),
                         "score needs validation data and cannot be combined with metric");
  require_valid("gradient_precision", options.gradient_precision);
  check_display(options);
  data::validate(options.augmentation);
  validate(options.oscillations);
  check_checkpoint(options);
}

void check_model(const Model& model, const FitOptions& options) {
  require<ArgumentError>(!options.distillation || options.distillation->teacher != &model,
                         "distillation: the model is its own teacher, expected another one");
  require<ArgumentError>(!options.oscillations.any() || !quantizers(model.graph()).empty(),
                         "oscillations: the model has no quantizers, whose codes could change");
  // With NaN every loss is NaN, see FitOptions::non_finite_loss; with infinity it need not be.
  for (const ParameterEntry& each : model.parameters().entries()) {
    const bool infinite = dispatch_compute(each.type.dtype, [&]<class T>() {
      return std::ranges::any_of(each.values<T>(), [](T v) { return std::isinf(v); });
    });
    require<ArgumentError>(!each.trainable() || !infinite,
                           "parameter '{}' is infinite before training", printable(each.name));
  }
}

namespace {

/// Returns the largest change of a parameter in a step by a rule that divides gradients by
/// their size; 0 for Sgd, whose steps follow the gradients.
double largest_step(const FitOptions& options, const std::string& parameter) {
  if (std::holds_alternative<Sgd>(options.optimizer)) return 0;
  const auto group = std::ranges::find_if(options.groups, [&](const ParameterGroup& each) {
    return matches(each.pattern, parameter);
  });
  if (group == options.groups.end()) return options.learning_rate;
  return group->frozen ? 0 : options.learning_rate * group->learning_rate_scale;
}

/// Returns a warning of learned scales whose ranges a step can leave; empty if there are none.
std::string warning_of_small_scales(const Model& model, const FitOptions& options) {
  const Graph& graph = model.graph();
  int64_t found = 0;
  std::string first;
  for (const NodeId id : quantizers(graph)) {
    const std::vector<NodeId> trained = trained_scales(graph, id);
    if (trained.empty()) continue;
    const std::string& name = graph[trained.front()].label;
    const double step = largest_step(options, name);
    const auto codes = static_cast<double>(grid_of(graph, id).limits.q_max);
    for (const QParams<double>& each : qparams(graph, model.parameters(), id)) {
      if (each.scale == 0 || step < each.scale * codes || found++ > 0) continue;
      first =
          fmt::format("'{}' {:.3g} with steps up to {:.3g}", printable(name), each.scale, step);
    }
  }
  if (found == 0) return {};
  return fmt::format(
      "warning: a step can change {} learned scale{} by more than the range of the data, first "
      "{}: lower the learning rate of scales, multiply the data, or use EMA",
      found, found == 1 ? "" : "s", first);
}

/// Returns a warning if quantized weights take no part in the control of oscillations,
/// otherwise an empty text.
std::string warning_of_oscillations(const Graph& graph, const Oscillations& options) {
  if (!options.any()) return {};
  const std::vector<bool> constant = constant_nodes(graph);
  std::string first;
  int64_t left_out = 0;
  for (const NodeId id : quantizers(graph)) {
    const NodeId weight = graph[id].operands[0];
    if (!constant[at(weight)] || quantized_weight(graph, id)) continue;
    if (left_out++ == 0) first = graph.describe(id);
  }
  if (left_out == 0) return {};
  return fmt::format(
      "warning: oscillations of {} quantized weight{} are not damped or frozen, first {}: its "
      "operand is computed from parameters",
      left_out, left_out == 1 ? "" : "s", first);
}

}  // namespace

void check_scales(const Model& model, const FitOptions& options) {
  const QuantizationSchedule schedule = options.quantization.value_or(QuantizationSchedule{});
  for (const NodeId id : quantizers(model.graph())) {
    if (schedule.freeze != 0) break;
    for (const QParams<double>& each : qparams(model.graph(), model.parameters(), id)) {
      require<ArgumentError>(each.scale > 0,
                             "quantization: freeze is 0, and {} has never observed any values: "
                             "calibrate the model first, or freeze later",
                             model.graph().describe(id));
    }
  }
  for (const std::string& warning :
       {warning_of_small_scales(model, options),
        warning_of_oscillations(model.graph(), options.oscillations)}) {
    if (options.progress && !warning.empty()) console::print("{}\n", warning);
  }
}

std::optional<MetricChoice> choose_validation(const Model& model, const FitOptions& options) {
  const data::Dataset& validation = *options.validation;
  const auto choice = options.score ? std::optional(choose_metric(model.graph(), model.answer(),
                                                                  validation, *options.score))
                                    : choose_metric(model.graph(), model.answer(), validation);
  if (!choice && options.progress) {
    console::print(
        "{} data: they have nothing to compare the answer with, so no epoch is scored\n",
        options.validation_name);
  }
  return choice;
}

void require_finite(const Parameters& parameters, int64_t step) {
  for (const ParameterEntry& each : parameters.entries()) {
    if (!each.trainable()) continue;
    const bool finite = dispatch_compute(each.type.dtype, [&]<class T>() {
      return std::ranges::all_of(each.values<T>(), [](T v) { return std::isfinite(v); });
    });
    require<GraphError>(
        finite,
        "parameter '{}' is NaN or infinite after step {}: a gradient was not finite, such as "
        "that of sqrt at 0, or the learning rate is too high; max_gradient_norm skips steps "
        "with such gradients",
        printable(each.name), step);
  }
}

Shards shards_of(const Model& model, const FitOptions& options) {
  int64_t total = 1;
  if (options.shards) {
    total = *options.shards;
  } else if (const auto kept = kept_shards(model, options)) {
    total = *kept;
  } else if (options.exchange != nullptr) {
    total = std::clamp<int64_t>(options.batch / min_samples, 1, max_default_shards);
    while (options.batch % total != 0) --total;
    const int ranks = options.exchange->ranks();
    require<ArgumentError>(
        ranks <= total,
        "{} processes need at least {} shards of a batch, and the default for a batch of {} is "
        "{}: choose a batch with a divisor from {} to {}, or the number of shards",
        ranks, ranks, options.batch, total, ranks, max_default_shards);
  }
  const Shards shards =
      options.exchange == nullptr ? Shards::alone(total) : Shards::of(total, *options.exchange);
  require<ArgumentError>(options.batch % total == 0,
                         "batch must be a multiple of the {} shards, got {}", total,
                         options.batch);
  require<ArgumentError>(
      total == 1 || options.batch / total >= min_samples,
      "batch must have at least {} samples for each of the {} shards, got {}", min_samples,
      total, options.batch);
  return shards;
}

namespace {

/// Adds hashes of what processes read from files.
void add_files(std::vector<RankFact>& facts, const data::Dataset& dataset,
               const FitOptions& options) {
  const auto add = [&](const std::string& name, const data::Dataset& samples) {
    for (RankFact& each : data_facts(name, samples)) facts.push_back(std::move(each));
  };
  add("samples", dataset);
  if (options.validation) add("validation samples", *options.validation);
  if (options.distillation) {
    facts.push_back({"values of the teacher",
                     options.distillation->teacher->parameters().sha256(), same_files});
  }
}

}  // namespace

std::map<std::string, std::string> settings_of(const FitOptions& options,
                                               const QuantizationSchedule& quantization) {
  const auto text = [](const auto& value) {
    return value ? fmt::format("{}", *value) : std::string("none");
  };
  const data::Augmentation& moved = options.augmentation;
  const Oscillations& damped = options.oscillations;
  const bool taught = options.distillation.has_value();
  const std::string score =
      options.score ? std::string(to_string_view(*options.score)) : "usual";
  return {
      {"score", options.metric ? "metric" : score},
      {"max_gradient_norm", fmt::format("{}", options.max_gradient_norm)},
      {"gradient_precision", std::string(to_string_view(options.gradient_precision))},
      {"augmentation", fmt::format("shift {}, rotation {}, noise {}", moved.shift,
                                   moved.rotation, moved.noise)},
      {"oscillations", fmt::format("damping {}, freeze_above {}, momentum {}", damped.damping,
                                   text(damped.freeze_above), damped.momentum)},
      {"distillation",
       taught ? fmt::format("temperature {}, share {}", options.distillation->temperature,
                            options.distillation->share)
              : "none"},
      {"quantization", fmt::format("delay {}, freeze {}, freeze_norms {}, warm_up {}",
                                   quantization.delay, text(quantization.freeze),
                                   text(quantization.freeze_norms), quantization.warm_up)}};
}

std::vector<RankFact> facts_of(const Model& model, const data::Dataset& dataset,
                               const FitOptions& options,
                               const std::map<std::string, Section>& sections) {
  const Machine here = machine();
  const std::string machines = "run on equal machines";
  std::vector<RankFact> facts = {
      {"processor", here.processor, machines},
      {"instruction set", here.isa, machines + " with the same QTAPE_ISA"},
      {"version of oneDNN", here.onednn, "install the same version everywhere"},
      {"instruction set of oneDNN", here.onednn_isa,
       machines + " with the same DNNL_MAX_CPU_ISA"},
      {"version of qtape", here.qtape, "run the same program everywhere"}};
  const auto add = [&](std::string name, std::string value) {
    facts.push_back({std::move(name), std::move(value), "pass the same settings everywhere"});
  };
  add("patience", fmt::format("{}", options.patience));
  add("keep_best", fmt::format("{}", options.keep_best));
  add("resume", fmt::format("{}", options.resume));
  for (const auto& [name, section] : sections) {
    const bool general = name == "settings" || name == "progress";
    add(name, section.kind);
    for (const auto& [key, value] : section.settings) {
      add(general ? key : name + "/" + key, settings::shown(value));
    }
  }
  add("network", hash_of(model.graph()));
  add("initial values", model.parameters().sha256());
  add_files(facts, dataset, options);
  return facts;
}

std::vector<RankFact> progress_facts(const Model& model, int64_t step,
                                     const std::optional<double>& score) {
  const std::string remedy = "give all processes the same settings, files and checkpoint";
  return {{"finished steps", std::to_string(step), remedy},
          {"values", model.parameters().sha256(), remedy},
          {"score", score ? fmt::format("{}", *score) : "none", remedy}};
}

DistilledGraph training_graph(const Model& model, const data::Dataset& dataset,
                              const FitOptions& options, int64_t rows) {
  const auto is_image = [](const data::Column& each) {
    const int rank = each.sample.shape.rank();
    return !each.target && (rank == 2 || rank == 3);
  };
  require<ArgumentError>(
      !options.augmentation.moves() || std::ranges::any_of(dataset.columns(), is_image),
      "augmentation: no input is an image, [h, w] or [h, w, c], that can be shifted or rotated");
  const NodeId loss = loss_of(model, dataset);
  Graph graph = model.graph().with_batch(rows);
  if (options.distillation)
    return distilled(graph, model.answer(), loss, *options.distillation);
  return {.graph = std::move(graph), .loss = loss, .probabilities = {}};
}

Section values_of(const Parameters& parameters) {
  Section section{.kind = "parameters"};
  for (const ParameterEntry& each : parameters.entries()) {
    section.tensors[each.name] = parameters.get(each.name);
  }
  return section;
}

Section best_values_of(const std::map<std::string, Section>& sections,
                       const Parameters& parameters) {
  const auto best = sections.find("best");
  require<ArgumentError>(best != sections.end(),
                         "keep_best: the checkpoint is from a run without it");
  const std::map<std::string, Tensor>& values = best->second.tensors;
  for (const ParameterEntry& each : parameters.entries()) {
    const auto found = values.find(each.name);
    require<FormatError>(found != values.end() && found->second.type == each.type,
                         "/sections/best/tensors: expected '{}' {}", printable(each.name),
                         each.type);
  }
  return best->second;
}

void restore_values(const Section& values, Parameters& parameters) {
  for (const auto& [name, tensor] : values.tensors) parameters.set(name, tensor);
}

std::vector<FedInput> inputs_but(Tape& tape, NodeId other) {
  std::vector<FedInput> inputs = inputs_of(tape);
  if (other.index < 0) return inputs;
  std::erase_if(inputs,
                [&](const FedInput& each) { return each.label == tape.graph()[other].label; });
  return inputs;
}

bool prefetches(const data::Dataset& dataset, const FitOptions& options) {
  const bool pays = dataset.computed() || options.augmentation.any();
  return options.prefetch.value_or(pays && options.threads > 1);
}

Arithmetic arithmetic_for(const Graph& graph, const FitOptions& options) {
  if (options.arithmetic) return *options.arithmetic;
  const std::vector<NodeId> ids = quantizers(graph);
  const bool few = std::ranges::any_of(ids, [&](NodeId id) {
    const CodeLimits limits = grid_of(graph, id).limits;
    return limits.q_max - limits.q_min < (1 << min_bits_on_codes) - 2;
  });
  return ids.empty() || few ? Arithmetic{} : products_of_codes();
}

}  // namespace qtape
