#include "qtape/model/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "qtape/core/float_environment.h"
#include "qtape/core/median.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/settings.h"
#include "qtape/io/file_lock.h"
#include "qtape/model/feed.h"
#include "qtape/model/recipe.h"
#include "qtape/model/training/fit_setup.h"
#include "qtape/model/training/prefetcher.h"
#include "qtape/model/training/progress.h"
#include "qtape/model/training/recorder.h"
#include "qtape/model/weight_codes.h"
#include "qtape/optim/clip.h"

namespace qtape {
namespace {

// Maximum number of step times for the median; in longer runs the last ones count.
constexpr int64_t max_times = 1 << 20;

/// All objects of one run.
class Run {
 public:
  Run(Model& model, const data::Dataset& dataset, const FitOptions& options)
      : model_(model),
        options_(options),
        ranks_(options.exchange),
        shards_(shards_of(model, options)),
        first_(options.batch / shards_.total * shards_.first),
        rows_(options.batch / shards_.total * shards_.count),
        order_(dataset.size(), options.batch, options.seed, first_, rows_),
        trained_(training_graph(model, dataset, options, rows_)),
        steps_(options.epochs * order_.per_epoch()),
        quantization_(options.quantization.value_or(
            QuantizationSchedule{.freeze_norms = default_norm_freeze(steps_)})),
        tape_(trained_.graph, model.parameters(),
              {.roots = {trained_.loss},
               .threads = options.threads,
               .seed = options.seed,
               .arithmetic = arithmetic_for(model.graph(), options),
               .gradient_precision = options.gradient_precision,
               .schedule = quantization_,
               .shards = shards_}),
        augmenter_(options.augmentation, options.seed, order_.per_epoch(), first_),
        optimizer_(model.parameters(), options.optimizer, options.groups, options.threads),
        schedule_{.base = options.learning_rate,
                  .shape = for_run(options.schedule.value_or(Cosine{}), steps_),
                  .warm_up = options.warm_up} {
    schedule_.validate();
    const std::vector<FedInput> inputs = inputs_but(tape_, trained_.probabilities);
    if (prefetches(dataset, options)) {
      prefetcher_.emplace(inputs, dataset, order_, augmenter_, steps_);
    } else {
      feed_.emplace(inputs, dataset);
    }
    if (options.distillation) {
      teacher_.emplace(*options.distillation, dataset, rows_, shards_, options.threads,
                       tape_.input<float>(trained_.probabilities));
    }
    if (options.oscillations.any()) {
      oscillations_.emplace(model.graph(), options.oscillations);
    }
    set_metric();
    if (ranks_.count() > 1) ranks_.require_equal(facts_of(model, dataset, options, sections()));
    if (options.interruptible) interruption_.emplace();
    if (!options.report.empty() && ranks_.leads()) open_record(dataset);
  }

  FitResult run() {
    std::optional<FileLock> lock;
    if (!options_.checkpoint.empty() && ranks_.leads()) lock.emplace(options_.checkpoint);
    resume();
    if (options_.resume && ranks_.count() > 1) {
      ranks_.require_equal(progress_facts(model_, step_, {}));
    }
    result_.resumed_from = step_;
    result_.steps = steps_;
    result_.shards = shards_.total;
    result_.ranks = ranks_.count();
    tape_.set_step(step_);
    model_.set_sections({});  // training makes them obsolete
    if (!options_.checkpoint.empty() && ranks_.leads()) {
      require_memory_of_checkpoint(model_.parameters(), optimizer_, options_.checkpoint);
    }
    try {
      train();
      if (updated_) require_finite(model_.parameters(), step_);
    } catch (const FitInterrupted& stopped) {
      record(report::RunState::Stopped);
      model_.set_sections(sections());
      throw FitInterrupted(stopped.signal(), stopped.progress(),
                           recorder_ ? recorder_->failure() : "");
    } catch (...) {
      record(report::RunState::Failed);
      throw;
    }
    if (result_.stopped) model_.set_sections(sections());
    record(result_.stopped ? report::RunState::Stopped : report::RunState::Finished);
    if (recorder_) result_.report_failure = recorder_->failure();
    if (best_values_ && !result_.stopped) restore_values(*best_values_, model_.parameters());
    result_.step = step_;
    if (oscillations_) result_.frozen_weights = oscillations_->frozen();
    return result_;
  }

 private:
  void open_record(const data::Dataset& dataset) {
    tape_.set_timing(true);
    recorder_.emplace(options_.report, model_, dataset, tape_, options_.batch);
    recorder_->set_plan(steps_, metric_);
  }

  void set_metric() {
    if (options_.metric) {
      require<ArgumentError>(options_.metric->measure != nullptr,
                             "metric: expected a function to measure, got an empty one");
      metric_ = *options_.metric;
    } else if (options_.validation) {
      metric_ = validation_metric();
    }
    require<ArgumentError>(
        metric_.measure || (options_.patience == 0 && !options_.keep_best),
        "patience and keep_best need a metric, or validation data with labels or targets");
  }

  /// Returns the metric of model and validation data; one without measure if there is none.
  Metric validation_metric() {
    const data::Dataset& validation = *options_.validation;
    const std::optional<MetricKind>& wanted = options_.score;
    const auto choice = choose_validation(model_, options_);
    if (!choice) return {};
    evaluator_.emplace(model_.graph(), model_.parameters(), options_.threads, Arithmetic{},
                       options_.exchange);
    naming<ArgumentError>("validation", [&] { evaluator_->check_data(validation, wanted); });
    Metric metric = metric_of(choice->kind);
    metric.name = fmt::format("{} {}", options_.validation_name, metric.name);
    metric.measure = [this] {
      return evaluator_->run(*options_.validation, mode::eval, options_.score).score->value;
    };
    return metric;
  }

  /// Runs all remaining steps, or those until the run is ended.
  void train() {
    std::optional<console::ProgressDisplay> display;
    if (options_.progress && ranks_.leads()) display.emplace(step_, options_.loss_digits);
    if (display && step_ == steps_) display->finished(options_.epochs);
    std::vector<double> times(
        static_cast<size_t>(std::clamp<int64_t>(steps_ - step_, 0, max_times)));
    size_t taken = 0;
    const int64_t skipped_elements = result_.non_finite_elements;
    bool done = ranks_.any(exhausted());
    while (step_ < steps_ && !done) {
      const auto start = std::chrono::steady_clock::now();
      const double loss = take_step();
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - start;
      times[taken++ % times.size()] = time.count();
      if (recorder_) recorder_->add_step(loss, time.count());
      result_.non_finite_elements = skipped_elements + tape_.non_finite();
      const FitProgress progress{step_, steps_, (step_ - 1) / order_.per_epoch() + 1, loss};
      if (display) display->step(progress);
      if (options_.on_step) options_.on_step(progress);
      const bool epoch_ends = step_ % order_.per_epoch() == 0;
      if (epoch_ends) finish_epoch(display);
      done = epoch_ends && ranks_.any(exhausted());
      const int signal = ranks_.largest(interruption_ ? interruption_->signal() : 0);
      result_.stopped = signal != 0 || ranks_.any(options_.stop && options_.stop());
      done = done || result_.stopped;
      const bool due = options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0;
      if (epoch_ends || due || done) save_progress();
      if (signal != 0) throw FitInterrupted(signal, progress);
    }
    times.resize(std::min(taken, times.size()));
    if (!times.empty()) result_.step_us = median(times);
  }

  /// Updates the parameters, unless the gradients are limited and their norm is not finite;
  /// true if it did.
  bool update() {
    if (options_.max_gradient_norm > 0) {
      const double norm = clip_by_norm(model_.parameters(), options_.max_gradient_norm,
                                       options_.threads, options_.groups);
      if (!std::isfinite(norm)) return false;
    }
    optimizer_.step(schedule_.learning_rate(step_));
    updated_ = true;
    return true;
  }

  /// Runs one step and returns its loss. A batch with a non-finite loss leaves the parameters
  /// unchanged.
  double take_step() {
    prefetcher_ ? prefetcher_->fill(step_) : feed_->fill(order_.at(step_), step_, augmenter_);
    if (teacher_) teacher_->answer(order_.at(step_), step_, augmenter_);
    if (options_.before_step) options_.before_step(tape_, step_);
    weight_codes_.remember(model_.parameters());
    if (oscillations_) oscillations_->remember(model_.parameters());
    tape_.forward(mode::qat);
    const double loss = tape_.scalar(trained_.loss);
    const Mode now = quantization_.mode_at(mode::qat, static_cast<uint64_t>(step_));
    if (std::isfinite(loss)) {
      tape_.backward();
      if (oscillations_ && now.quantize) {
        oscillations_->damp(tape_, static_cast<double>(step_) / static_cast<double>(steps_));
      }
      if (options_.on_gradients) options_.on_gradients(model_.parameters(), step_);
      if (update()) {
        if (oscillations_ && now.quantize) oscillations_->follow(tape_);
        total_loss_ += loss;
        ++batches_;
      } else {
        ++result_.skipped_batches;
      }
    } else {
      if (updated_) require_finite(model_.parameters(), step_);
      check(options_.non_finite_loss == NonFiniteLoss::Skip,
            "the loss of step {} is {}; the parameters are those before that step", step_ + 1,
            loss);
      ++result_.skipped_batches;
    }
    if (now.quantize) weight_codes_.keep(model_.parameters(), !now.observe);
    ++step_;
    return loss;
  }

  void finish_epoch(std::optional<console::ProgressDisplay>& display) {
    const bool learned = batches_ > 0;
    EpochResult epoch{.epoch = static_cast<int64_t>(result_.epochs.size()) + 1};
    if (learned) epoch.loss = total_loss_ / static_cast<double>(batches_);
    if (metric_.measure) epoch.score = metric_.measure();
    result_.epochs.push_back(epoch);
    if (ranks_.count() > 1) ranks_.require_equal(progress_facts(model_, step_, epoch.score));
    total_loss_ = 0;
    batches_ = 0;
    if (note_best() && options_.keep_best) best_values_ = values_of(model_.parameters());
    if (display) {
      std::string text = learned ? "" : "(no batch has a finite loss)";
      if (epoch.score) {
        text += (learned ? "" : " ") + metric_.name + " " + metric_.text(*epoch.score);
      }
      display->epoch(epoch.epoch, epoch.loss, text);
    }
    if (recorder_) recorder_->add_epoch(epoch, schedule_.learning_rate(step_ - 1));
    if (options_.on_epoch) options_.on_epoch(epoch);
  }

  /// Updates the best epoch; true if the last epoch is the best one so far.
  bool note_best() {
    const EpochResult& last = result_.epochs.back();
    if (!last.score || !std::isfinite(*last.score)) return false;
    if (result_.best_epoch) {
      const double best = *result_.epochs[static_cast<size_t>(*result_.best_epoch - 1)].score;
      if (!metric_.better(*last.score, best)) return false;
    }
    result_.best_epoch = last.epoch;
    return true;
  }

  /// True if the score has not improved within the patience of the options.
  bool exhausted() const {
    const auto epochs = static_cast<int64_t>(result_.epochs.size());
    return options_.patience > 0 &&
           epochs - result_.best_epoch.value_or(0) >= options_.patience;
  }

  Section progress() const {
    return to_section(RunProgress{.step = step_,
                                  .loss = total_loss_,
                                  .batches = batches_,
                                  .skipped = result_.skipped_batches,
                                  .non_finite = result_.non_finite_elements,
                                  .epochs = result_.epochs},
                      run_settings());
  }

  RunSettings run_settings() const {
    return {.steps = steps_,
            .epochs = options_.epochs,
            .batch = options_.batch,
            .samples = order_.samples(),
            .seed = options_.seed,
            .shards = shards_,
            .others = settings_of(options_, quantization_)};
  }

  void record(report::RunState state) {
    if (recorder_) recorder_->write(state);
  }

  void save_progress() {
    // Written before the checkpoint, so that a resumed run finds at least its steps in the
    // record.
    record(report::RunState::Running);
    if (options_.checkpoint.empty() || !ranks_.leads()) return;
    save_model(options_.checkpoint, model_.graph(), model_.parameters(), sections());
  }

  std::map<std::string, Section> sections() const {
    std::map<std::string, Section> sections = options_.sections;
    sections["optimizer"] = optimizer_.save();
    sections["schedule"] = to_section(schedule_);
    sections["progress"] = progress();
    if (best_values_) sections["best"] = *best_values_;
    if (oscillations_) sections["oscillations"] = oscillations_->save();
    return sections;
  }

  void resume() {
    if (!options_.resume) return;
    if (model_.sections().contains("progress")) {
      restore(model_.sections());
      return resume_record();
    }
    const std::optional<SavedModel> saved = saved_run(model_, options_);
    if (!saved) return;
    naming<FormatError>(options_.checkpoint, [&] { restore(saved->sections); });
    resume_record();
    (void)model_.take_over(saved->parameters);
  }

  void resume_record() {
    if (recorder_) recorder_->resume(step_, result_.epochs);
  }

  void restore(const std::map<std::string, Section>& sections) {
    const auto kept = progress_from(settings::section_of(sections, "progress"), run_settings());
    step_ = kept.step;
    total_loss_ = kept.loss;
    batches_ = kept.batches;
    result_.skipped_batches = kept.skipped;
    result_.non_finite_elements = kept.non_finite;
    for (const EpochResult& each : kept.epochs) {
      result_.epochs.push_back(each);
      (void)note_best();
    }
    if (options_.keep_best && result_.best_epoch) {
      best_values_ = best_values_of(sections, model_.parameters());
    }
    require<ArgumentError>(oscillations_.has_value() == sections.contains("oscillations"),
                           "oscillations: the checkpoint is from a run {}",
                           oscillations_ ? "without them, got some" : "with them, got none");
    if (oscillations_) oscillations_->load(settings::section_of(sections, "oscillations"));
    naming<FormatError>("checkpoint",
                        [&] { optimizer_.load(settings::section_of(sections, "optimizer")); });
    require_same_schedule(schedule_, schedule_from(settings::section_of(sections, "schedule")));
  }

  Model& model_;
  const FitOptions& options_;
  Ranks ranks_;
  Shards shards_;
  int64_t first_;  // sample of each batch
  int64_t rows_;   // samples of this process in each batch
  data::EpochOrder order_;
  DistilledGraph trained_;  // if there is no teacher, the graph with the loss of the model
  int64_t steps_;
  QuantizationSchedule quantization_;
  Tape tape_;
  data::Augmenter augmenter_;
  std::optional<Feed> feed_;  // null if prefetcher_ is used
  std::optional<Prefetcher> prefetcher_;
  Optimizer optimizer_;
  WeightCodes weight_codes_{model_.graph()};
  Schedule schedule_;
  std::optional<Teacher> teacher_;
  std::optional<OscillationControl> oscillations_;
  std::optional<Evaluator> evaluator_;
  std::optional<console::Interruption> interruption_;  // outlives the files that it locks
  std::optional<Recorder> recorder_;
  Metric metric_;
  std::optional<Section> best_values_;  // values of the best epoch, if they are to be restored
  int64_t step_ = 0;
  double total_loss_ = 0;
  int64_t batches_ = 0;
  bool updated_ = false;  // true after an update of this run
  FitResult result_;
};

}  // namespace

FitResult fit(Model& model, const data::Dataset& dataset, const FitOptions& options) {
  check_options(options);
  const FloatEnvironment floats;
  check_model(model, options);
  std::vector<std::string> warnings = check_scales(model, options);
  FitResult result = during("training", {}, [&] { return Run(model, dataset, options).run(); });
  result.warnings = std::move(warnings);
  return result;
}

}  // namespace qtape
