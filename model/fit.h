// fit: trains a model on a data set, from the first step or from a checkpoint.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qtape/data/batches.h"
#include "qtape/model/metric.h"
#include "qtape/model/model.h"
#include "qtape/model/training/distillation.h"
#include "qtape/model/training/oscillation.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"
#include "qtape/programs/console/interruption.h"
#include "qtape/programs/console/progress.h"

namespace qtape {

/// Progress of a run, the argument of FitOptions::on_step.
using FitProgress = console::Progress;

/// Result of an epoch.
struct EpochResult {
  int64_t epoch = 0;  ///< from 1
  /// Mean over the epoch's batches with a finite loss; NaN if there are none.
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> score = {};  ///< by FitOptions::metric or the validation data
};

/// Handling of a batch whose loss is NaN or infinite. In both cases parameters stay unchanged,
/// except learned scales that the forward pass initialises.
enum class NonFiniteLoss : uint8_t {
  Skip,  ///< the batch is counted, and training continues
  Stop   ///< throws a GraphError that names the step
};

/// Options of a training run.
struct FitOptions {
  int64_t epochs = 10;  ///< at least 1
  int64_t batch = 64;   ///< samples per step, from 1 to the size of the data
  Rule optimizer = Adam{};
  /// Highest learning rate, and its shape over time; without a shape it falls to 0 by half a
  /// cosine over the run.
  double learning_rate = 1e-3;
  std::optional<Schedule::Shape> schedule = {};
  WarmUp warm_up = {};
  std::vector<ParameterGroup> groups = {};
  /// Adds a loss for the outputs of a teacher model.
  std::optional<Distillation> distillation = {};
  /// Damps or freezes weights that oscillate between two codes.
  Oscillations oscillations = {};
  /// Gradients with a larger norm are scaled down to it, and a step whose norm is not finite
  /// is skipped; those of frozen parameters do not count. 0: no limit.
  double max_gradient_norm = 0;
  data::Augmentation augmentation = {};
  /// Reads the samples of the next step in a separate thread while a step computes. If empty:
  /// only if samples are computed, mapped, augmented or read from files and there is more than
  /// one thread.
  std::optional<bool> prefetch = {};
  /// If empty, batch norms are frozen in the last third of the run, so that training computes
  /// what is deployed.
  std::optional<QuantizationSchedule> quantization = {};
  /// If empty, products of quantized operands are computed on codes (products_of_codes()) if
  /// all of them have 4 bits or more.
  std::optional<Arithmetic> arithmetic = {};
  GradientPrecision gradient_precision = GradientPrecision::F32;
  NonFiniteLoss non_finite_loss = NonFiniteLoss::Skip;
  /// Data on which every epoch is scored, by the metric for model and data, see choose_metric.
  std::optional<data::Dataset> validation = {};
  std::string validation_name = "validation";  ///< precedes the name of the metric
  /// Metric for `validation` instead of the default: MetricKind::AreaUnderCurve.
  std::optional<MetricKind> score = {};
  /// User-defined score of every epoch; takes precedence over `validation`.
  std::optional<Metric> metric = {};
  /// Stops the run after this number of consecutive epochs without a better score; 0: never.
  int64_t patience = 0;
  /// Restores the values of the best epoch at the end.
  bool keep_best = false;
  /// File written after every epoch and every `checkpoint_every` steps; empty: none.
  std::string checkpoint = {};
  int64_t checkpoint_every = 0;  ///< in steps; 0: only after epochs
  /// Continues from the progress in the model's sections, which a checkpoint and a run that was
  /// stopped leave there, or else in the file `checkpoint`, if there is any. The result is
  /// bit-identical to that of an uninterrupted run. Settings that affect it must equal those
  /// of the run; only `arithmetic`, `patience` and functions, which checkpoints cannot hold,
  /// are not compared.
  bool resume = false;
  /// Folder for the record of the run, read by report::run_page and `qtape report`; written
  /// after every epoch and with every checkpoint. Empty: none.
  std::string report = {};
  /// Additional sections for checkpoints.
  std::map<std::string, Section> sections = {};
  /// Number of shards of a batch, which must divide it into shards of at least 2 samples. Sums
  /// over a batch add the sums of its shards in a fixed binary tree. Results depend on this
  /// number, but not on the number of processes, at most one per shard. If empty: that of the
  /// checkpoint from which the run continues, otherwise 1 without `exchange`, and with it the
  /// largest divisor of the batch up to 8 that leaves 2 samples in each shard.
  std::optional<int64_t> shards = {};
  /// Connection of the processes that train together, which all call `fit` with equal arguments
  /// and get equal results; null: this process alone. Each reads and computes the samples of
  /// its shards; the first one writes files and displays progress.
  Exchange* exchange = nullptr;
  uint64_t seed = 1;                ///< for order, augmentation and dropout
  int threads = default_threads();  ///< at least 1
  bool progress = true;             ///< draws a progress bar, or prints one line per epoch
  int loss_digits = 4;              ///< digits after the point of the loss in the progress
                                    ///< display
  bool interruptible = true;        ///< SIGINT and SIGTERM end the run after the current step
  /// Called before the forward pass, for example to switch quantizers.
  std::function<void(Tape& tape, int64_t step)> before_step = {};
  /// Called between the backward pass and the optimizer.
  std::function<void(Parameters& parameters, int64_t step)> on_gradients = {};
  std::function<void(const FitProgress&)> on_step = {};   ///< called after every step
  std::function<void(const EpochResult&)> on_epoch = {};  ///< called after every epoch
  /// Called after every step; if it returns true, the run writes a checkpoint and ends.
  std::function<bool()> stop = {};
};

/// Result of a training run.
struct FitResult {
  std::vector<EpochResult> epochs = {};  ///< including those before a resume
  int64_t step = 0;                      ///< number of finished steps
  int64_t steps = 0;                     ///< number of steps of the whole run
  int64_t resumed_from = 0;              ///< number of steps of the run that was continued
  /// Median time of a step in microseconds: batch, forward, backward and optimizer; empty if a
  /// run that was complete was resumed.
  std::optional<double> step_us = {};
  /// Warnings of scales and weights, which FitOptions::progress prints before the first step.
  std::vector<std::string> warnings = {};
  int64_t skipped_batches = 0;             ///< batches without update because their loss, or
                                           ///< the limited norm of gradients, was not finite
  int64_t non_finite_elements = 0;         ///< number of elements that observers skipped
  int64_t shards = 1;                      ///< number of shards of a batch
  int ranks = 1;                           ///< number of processes
  int64_t frozen_weights = 0;              ///< number frozen by FitOptions::oscillations
  bool stopped = false;                    ///< true if FitOptions::stop ended the run
  std::optional<int64_t> best_epoch = {};  ///< from 1, by score
  /// Why FitOptions::report could not be written at the end; this does not end the run.
  std::string report_failure = {};
};

/// Returns a sentence on batches and elements that were skipped; empty if there were none.
std::string skipped_text(const FitResult& result);

/// Thrown if a signal ended the run. The model, in its sections, and the checkpoint hold the
/// progress.
class FitInterrupted : public console::Interrupted {
 public:
  /// `report_failure` is as in FitResult.
  FitInterrupted(int signal, const FitProgress& progress,
                 const std::string& report_failure = {});
  const FitProgress& progress() const { return progress_; }

 private:
  FitProgress progress_;
};

/// Trains `model` on the full batches of `dataset`, reshuffled in each epoch. Throws
/// ArgumentError for invalid options and for data that do not fit the model, GraphError for a
/// model without a loss, FormatError for a checkpoint of another model, IoError if a checkpoint
/// cannot be written or another run writes it, and FitInterrupted.
FitResult fit(Model& model, const data::Dataset& dataset, const FitOptions& options = {});

}  // namespace qtape
