#include "qtape/examples/classifier/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "qtape/calibrate/calibration.h"
#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/data/batches.h"
#include "qtape/examples/shared/median.h"
#include "qtape/integer/exact.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"

namespace qtape::examples {
namespace {

constexpr int64_t largest_count = int64_t{1} << 60;
// Step times that the median is taken of: those of the last steps where there are more.
constexpr int64_t max_times = 1 << 20;
// Where progress stands in checkpoints, for messages.
constexpr std::string_view progress_place = "/sections/progress";

/// Labels of what quantizers hold their scales in.
std::set<std::string, std::less<>> scale_labels(const Graph& graph) {
  std::set<std::string, std::less<>> labels;
  for (NodeId id : quantizers(graph)) {
    const auto& operands = graph[id].operands;
    for (size_t i = 1; i < operands.size(); ++i) {
      if (is_persistent(graph[operands[i]].op)) labels.insert(graph[operands[i]].label);
    }
  }
  return labels;
}

}  // namespace

Training::Training(Task task, const data::Split& data)
    : task_(std::move(task)),
      data_(data),
      parameters_(network().graph, static_cast<uint64_t>(recipe().seed)) {}

Training::Training(Task task, Model checkpoint, const data::Split& data)
    : task_(std::move(task)),
      data_(data),
      parameters_(std::move(checkpoint.parameters)),
      optimizer_(section_of(checkpoint, "optimizer")),
      schedule_(schedule_from(section_of(checkpoint, "schedule"))) {
  require<FormatError>(network().graph == checkpoint.graph,
                       "/nodes: the graph is not the one that the settings describe");
  restore(section_of(checkpoint, "progress"));
}

int64_t Training::take_over(const Parameters& from) {
  int64_t taken = 0;
  for (const ParameterEntry& each : parameters_.entries()) {
    if (from.find(each.name) == nullptr) continue;
    parameters_.set(each.name, from.get(each.name));
    ++taken;
  }
  return taken;
}

int64_t Training::start_from(const Model& model, int threads, int64_t batches) {
  const auto scales = scale_labels(network().graph);
  bool calibrates = false;
  for (const ParameterEntry& each : parameters_.entries()) {
    const ParameterEntry* found = model.parameters.find(each.name);
    const bool of_quantizer = scales.contains(each.name);
    require<GraphError>(found != nullptr || of_quantizer,
                        "the saved model has no '{}', which the network needs as {}",
                        printable(each.name), each.type);
    require<GraphError>(found == nullptr || found->type == each.type,
                        "'{}' of the saved model is {}, the network needs {}",
                        printable(each.name), found == nullptr ? each.type : found->type,
                        each.type);
    calibrates = calibrates || found == nullptr;
  }
  const int64_t taken = take_over(model.parameters);
  if (!calibrates) return taken;
  Tape tape(network().graph, parameters_, {.outputs = {network().logits}, .threads = threads});
  (void)calibrate(tape, data::batch_source(data_.train, batches * recipe().batch));
  return take_over(model.parameters);
}

Section Training::progress() const {
  Section section{"progress",
                  {{"step", step_},
                   {"loss", totals_.loss},
                   {"batches", totals_.batches},
                   {"skipped", skipped_},
                   {"non_finite", non_finite_},
                   {"epochs", static_cast<int64_t>(epochs_.size())}},
                  {}};
  for (const EpochResult& each : epochs_) {
    section.settings[fmt::format("loss {}", each.epoch)] = each.loss;
    section.settings[fmt::format("test_accuracy {}", each.epoch)] = each.test_accuracy;
  }
  return section;
}

void Training::restore(const Section& section) {
  const auto count = [&](const char* key) {
    return settings::take<int64_t>(progress_place, section, key);
  };
  const auto real = [&](const std::string& key) {
    return settings::take<double>(progress_place, section, key);
  };
  step_ = count("step");
  totals_ = {real("loss"), count("batches")};
  skipped_ = count("skipped");
  non_finite_ = count("non_finite");
  const int64_t finished = count("epochs");
  require<FormatError>(
      step_ >= 0 && step_ <= steps() && finished >= 0 && finished <= recipe().epochs &&
          totals_.batches >= 0 && totals_.batches <= step_ && skipped_ >= 0 &&
          skipped_ <= step_ && non_finite_ >= 0 && non_finite_ <= largest_count,
      "{}: step {} of {} or a count is out of range", progress_place, step_, steps());
  for (int64_t epoch = 1; epoch <= finished; ++epoch) {
    epochs_.push_back({epoch, real(fmt::format("loss {}", epoch)),
                       real(fmt::format("test_accuracy {}", epoch))});
  }
}

void Training::save(const std::string& path) const {
  save_model(path, network().graph, parameters_);
}

EpochResult Training::finish_epoch(data::Evaluator& evaluator) {
  const double batches = static_cast<double>(std::max<int64_t>(1, totals_.batches));
  const EpochResult result{static_cast<int64_t>(epochs_.size()) + 1, totals_.loss / batches,
                           evaluator.run(data_.test).accuracy};
  epochs_.push_back(result);
  totals_ = {};
  return result;
}

/// The objects that live as long as a run.
struct Training::Run {
  Run(Training& training, const RunOptions& run_options)
      : options(run_options),
        tape(training.network().graph, training.parameters_,
             {.roots = {training.network().loss},
              .threads = options.threads,
              .seed = static_cast<uint64_t>(training.recipe().seed),
              .arithmetic = arithmetic_of(training.recipe()),
              .gradient_precision = training.recipe().gradient_precision,
              .schedule = schedule_of(training.recipe(), training.steps())}),
        evaluator(training.network().graph, training.parameters_, options.threads,
                  exact(training.recipe().exact)),
        batches(training.data_.train, training.recipe().batch,
                static_cast<uint64_t>(training.recipe().seed),
                augmentation_of(training.recipe())),
        optimizer(training.parameters_, Adam{}, {}, options.threads),
        schedule{.base = training.recipe().learning_rate,
                 .shape = Cosine{.total = training.recipe().epochs * batches.per_epoch()}},
        x(tape.input<float>(training.network().x)),
        labels(tape.input<int32_t>(training.network().labels)) {}

  const RunOptions& options;
  Tape tape;
  data::Evaluator evaluator;
  data::Batches batches;
  Optimizer optimizer;
  Schedule schedule;
  std::span<float> x;
  std::span<int32_t> labels;
};

void Training::save_checkpoint(const std::string& path, const Run& run) const {
  save_model(path, network().graph, parameters_,
             {{"optimizer", run.optimizer.save()},
              {"schedule", to_section(run.schedule)},
              {"progress", progress()},
              {"settings", task_.settings}});
}

/// One step; the loss. A batch whose loss is not finite leaves the parameters alone.
double Training::take_step(Run& run) {
  run.batches.fill(step_, run.x, run.labels);
  run.tape.forward(mode::qat);
  const double loss = run.tape.scalar(network().loss);
  if (std::isfinite(loss)) {
    run.tape.backward();
    run.optimizer.step(run.schedule.learning_rate(step_));
    totals_.loss += loss;
    ++totals_.batches;
  } else {
    ++skipped_;
  }
  ++step_;
  return loss;
}

/// False when the run is to stop here.
bool Training::after_step(Run& run, double loss) {
  const int64_t per_epoch = run.batches.per_epoch();
  const RunOptions& options = run.options;
  if (options.on_step) {
    options.on_step({step_, steps(), (step_ - 1) / per_epoch + 1, loss});
  }
  const bool epoch_ends = step_ % per_epoch == 0;
  if (epoch_ends) {
    const EpochResult result = finish_epoch(run.evaluator);
    if (options.on_epoch) options.on_epoch(result);
  }
  const bool due = options.checkpoint_every > 0 && step_ % options.checkpoint_every == 0;
  const bool stops = options.stop && options.stop();
  if (!options.checkpoint.empty() && (epoch_ends || due || stops)) {
    save_checkpoint(options.checkpoint, run);
  }
  return !stops;
}

RunResult Training::run(const RunOptions& options) {
  Run run(*this, options);
  run.tape.set_step(step_);
  if (optimizer_) run.optimizer.load(*optimizer_);
  if (schedule_) run.schedule = *schedule_;
  std::vector<double> times;
  times.resize(static_cast<size_t>(std::clamp<int64_t>(steps() - step_, 0, max_times)));
  size_t taken = 0;
  const int64_t skipped_elements = non_finite_;
  while (step_ < steps()) {
    const auto start = std::chrono::steady_clock::now();
    const double loss = take_step(run);
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - start;
    times[taken++ % times.size()] = time.count();
    non_finite_ = skipped_elements + run.tape.non_finite();
    if (!after_step(run, loss)) return {.epochs = epochs_, .stopped = true};
  }
  return {epochs_,  median(times), run.evaluator.run(data_.test), parameters_.sha256(),
          skipped_, non_finite_};
}

}  // namespace qtape::examples
