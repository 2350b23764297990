// Checks of a run before it starts and between steps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "qtape/core/printable.h"
#include "qtape/core/process_limits.h"
#include "qtape/core/settings.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/model/training/fit_setup.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape {
namespace {

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
  const ParameterGroup* group = group_of(options.groups, parameter);
  if (group == nullptr) return options.learning_rate;
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
      "{}: lower the learning rate or that of scales, or use EMA",
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

std::vector<std::string> check_scales(const Model& model, const FitOptions& options) {
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
  std::vector<std::string> warnings = {
      warning_of_small_scales(model, options),
      warning_of_oscillations(model.graph(), options.oscillations)};
  std::erase(warnings, "");
  for (const std::string& warning : warnings) {
    if (options.progress) console::print("{}\n", warning);
  }
  return warnings;
}

void require_memory_of_checkpoint(const Parameters& parameters, const Optimizer& optimizer,
                                  const std::string& path) {
  if (!address_space_limit()) return;
  int64_t moments = 0;
  for (const auto& [name, tensor] : optimizer.save().tensors) moments += tensor.type.bytes();
  int64_t values = 0;
  int64_t largest = 0;
  for (const ParameterEntry& each : parameters.entries()) {
    values += each.type.bytes();
    largest = std::max(largest, each.type.bytes());
  }
  // Base64 writes 3 bytes as 4 characters.
  require_address_space(path + ": writing this checkpoint",
                        moments + largest + (values + moments + largest) * 4 / 3);
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

}  // namespace qtape
