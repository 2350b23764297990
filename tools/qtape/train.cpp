#include <fmt/format.h>

#include <algorithm>

#include "qtape/console/standard_output.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/model/fit.h"
#include "qtape/model/norms.h"
#include "qtape/model/recipe.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {
namespace {

constexpr int64_t norm_batches = 100;

/// Whether training can use the quantizers that there are: those of post-training quantization
/// have scales that nothing moves.
bool has_trainable_quantizers(const Graph& graph) {
  const std::vector<NodeId> ids = quantizers(graph);
  return !ids.empty() && std::ranges::none_of(ids, [&](NodeId id) {
    const auto* op = std::get_if<FakeQuantize>(&graph[id].op);
    return op != nullptr && std::holds_alternative<Fixed>(op->scale_mode);
  });
}

/// The model with the quantizers that the command asks for; its own where it asks for none and
/// they can be trained.
Model with_recipe(Model model, const TrainCommand& command, const data::Dataset& samples) {
  const bool asked = command.weight_bits || command.activation_bits || command.ends_bits ||
                     !command.scales.empty();
  if (command.in_float) {
    require<ArgumentError>(!asked, "--float leaves no quantizers to have bits");
    return {without_quantizers(model.graph()), model.parameters()};
  }
  if (!asked && has_trainable_quantizers(model.graph())) return model;
  QuantizationRecipe recipe{.weight_bits = command.weight_bits.value_or(8),
                            .activation_bits = command.activation_bits.value_or(8),
                            .ends_bits = command.ends_bits};
  if (!command.scales.empty())
    recipe.scales = from_string<RecipeScales>(command.scales).value();
  return quantized(model, recipe, samples, usual_calibration_samples, command.threads);
}

/// Names of scales and zero points that are trained.
std::vector<std::string> learned_scales(const Graph& graph) {
  std::vector<std::string> names;
  for (NodeId id : quantizers(graph)) {
    const auto& operands = graph[id].operands;
    for (size_t k = 1; k < operands.size(); ++k) {
      const Node& node = graph[operands[k]];
      if (std::holds_alternative<Parameter>(node.op)) names.push_back(node.label);
    }
  }
  return names;
}

FitOptions options_of(const TrainCommand& command, const Model& model,
                      const data::Split& data) {
  FitOptions options{.epochs = command.epochs,
                     .batch = std::min(command.batch, data.train.size()),
                     .learning_rate = command.learning_rate,
                     .checkpoint = command.checkpoint,
                     .resume = command.resume,
                     .report = command.report,
                     .seed = command.seed,
                     .threads = command.threads};
  if (data.test.size() > 0) options.validation = data.test;
  options.oscillations = {.damping = command.damping, .freeze_above = command.freeze_above};
  for (const std::string& pattern : learned_scales(model.graph())) {
    options.groups.push_back(
        {.pattern = pattern, .learning_rate_scale = command.scales_rate, .weight_decay = 0.0});
  }
  return options;
}

void print_accuracy(const char* when, const Model& model, const TrainCommand& command,
                    const data::Dataset& test) {
  if (test.classes() == 0) return;
  console::print("{}: accuracy {:.2f} %\n", when, accuracy(model, test, command.threads));
}

}  // namespace

void train(const TrainCommand& command) {
  examples::OutputFiles files;
  files.expect("--output", command.output);
  files.expect("--checkpoint", command.checkpoint);
  Model model = Model::load(command.model);
  require<ArgumentError>(!command.resume || model.sections().contains("progress"),
                         "--resume: {} is no checkpoint", command.model);
  const data::Split data = load_data(command.data, features_of(model.graph()), 7000);
  if (!command.resume) {
    print_accuracy("as it is", model, command, data.test);
    model = with_recipe(with_loss(std::move(model), data.train), command, data.train);
    print_accuracy("with its quantizers calibrated", model, command, data.test);
  }
  std::optional<Model> teacher;
  FitOptions options = options_of(command, model, data);
  if (!command.teacher.empty()) {
    teacher.emplace(Model::load(command.teacher));
    options.distillation = Distillation{.teacher = &*teacher,
                                        .temperature = command.temperature,
                                        .share = command.teacher_share};
  }
  std::string report_failure;
  try {
    const FitResult result = fit(model, data.train, options);
    report_failure = result.report_failure;
    if (command.freeze_above) console::print("{} weights are frozen\n", result.frozen_weights);
  } catch (const FitInterrupted& stopped) {
    throw console::Interrupted(
        stopped.signal(), fmt::format("{}; {}", stopped.what(),
                                      command.checkpoint.empty()
                                          ? std::string("nothing is kept without --checkpoint")
                                          : fmt::format("go on with: qtape train {} --resume",
                                                        command.checkpoint)));
  }
  if (command.norms) {
    (void)reestimate_norms(model, data.train, norm_batches, options.batch, command.seed,
                           command.threads);
  }
  print_accuracy("trained", model, command, data.test);
  files.save(command.output, [&](const std::string& path) { model.save(path); });
  files.require_written();
  require<IoError>(report_failure.empty(), "--report: {}", report_failure);
}

}  // namespace qtape::tool
