#include "qtape/model/training/fit_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/engine/batch_slices.h"
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

}  // namespace

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

std::optional<SavedModel> saved_run(const Model& model, const FitOptions& options) {
  std::error_code ignored;
  const std::string& file = options.checkpoint;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return std::nullopt;
  SavedModel saved = load_model(file);
  require<FormatError>(
      saved.graph.with_batch(options.batch) == model.graph().with_batch(options.batch),
      "{}: /nodes: the graph is not that of the model", file);
  return saved;
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
