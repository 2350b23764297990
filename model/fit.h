// fit: trains a model on a data set, from its first step or from a checkpoint.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qtape/console/interruption.h"
#include "qtape/console/progress.h"
#include "qtape/data/batches.h"
#include "qtape/model/distillation.h"
#include "qtape/model/metric.h"
#include "qtape/model/model.h"
#include "qtape/model/oscillation.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"

namespace qtape {

/// Where a run is: what FitOptions::on_step is given.
using FitProgress = console::Progress;

/// What an epoch came to.
struct EpochResult {
  int64_t epoch = 0;                 ///< from 1
  double loss = 0;                   ///< mean over the epoch's finite batches
  std::optional<double> score = {};  ///< of FitOptions::metric
};

/// What becomes of a batch whose loss is NaN or infinite. Neither changes the parameters.
enum class NonFiniteLoss : uint8_t {
  Skip,  ///< it is counted, and the next one follows
  Stop   ///< a GraphError that names the step
};

/// How a model is trained, and who is told.
struct FitOptions {
  int64_t epochs = 10;  ///< at least 1
  int64_t batch = 64;   ///< samples of a step, from 1 to those of the data
  Rule optimizer = Adam{};
  /// Highest learning rate, and how it changes; without a shape it falls to 0 by half a cosine
  /// over the run.
  double learning_rate = 1e-3;
  std::optional<Schedule::Shape> schedule = {};
  WarmUp warm_up = {};
  std::vector<ParameterGroup> groups = {};
  /// Learns from another model as well.
  std::optional<Distillation> distillation = {};
  /// Quiets weights that jump between two codes.
  Oscillations oscillations = {};
  /// Gradients of a larger norm are scaled down to it; 0: never.
  double max_gradient_norm = 0;
  data::Augmentation augmentation = {};
  /// Reads the samples of the next step in a thread of its own while a step computes. Without
  /// it: where samples are computed or augmented and there are threads for it.
  std::optional<bool> prefetch = {};
  /// Without one batch norms stand still in the last third of the run, so that training
  /// computes what ships.
  std::optional<QuantizationSchedule> quantization = {};
  /// Without one products of quantized operands are computed on codes where all have 4 bits or
  /// more: products_of_codes().
  std::optional<Arithmetic> arithmetic = {};
  GradientPrecision gradient_precision = GradientPrecision::F32;
  NonFiniteLoss non_finite_loss = NonFiniteLoss::Skip;
  /// Judges every epoch by the metric of model and data, see choose_metric.
  std::optional<data::Dataset> validation = {};
  /// By this metric of theirs instead: MetricKind::AreaUnderCurve.
  std::optional<MetricKind> score = {};
  /// The same by anything else; comes before `validation`.
  std::optional<Metric> metric = {};
  /// Ends the run after so many epochs in a row without a better score; 0: never.
  int64_t patience = 0;
  /// Gives the model the values of its best epoch in the end.
  bool keep_best = false;
  /// File written after every epoch and every `checkpoint_every` steps; empty: none.
  std::string checkpoint = {};
  int64_t checkpoint_every = 0;  ///< steps; 0: after epochs alone
  /// Goes on where the model's sections, or else the file `checkpoint`, stand, where there is
  /// such progress. The result has the bits of an unbroken run.
  bool resume = false;
  /// Folder that keeps the record of the run, for report::run_page and `qtape report`; written
  /// after every epoch and with every checkpoint. Empty: none.
  std::string report = {};
  /// Further sections for checkpoints.
  std::map<std::string, Section> sections = {};
  uint64_t seed = 1;                ///< of order, augmentation and dropout
  int threads = default_threads();  ///< at least 1
  bool progress = true;             ///< draws a bar, or prints a line per epoch
  int loss_digits = 4;              ///< after the point, there
  bool interruptible = true;        ///< SIGINT and SIGTERM end the run after their step
  /// Before forward: switches of quantizers.
  std::function<void(Tape& tape, int64_t step)> before_step = {};
  /// Between backward and the optimizer.
  std::function<void(Parameters& parameters, int64_t step)> on_gradients = {};
  std::function<void(const FitProgress&)> on_step = {};   ///< called after every step
  std::function<void(const EpochResult&)> on_epoch = {};  ///< called after every epoch
  /// Asked after every step; true: a checkpoint, then the end.
  std::function<bool()> stop = {};
};

/// What a run came to.
struct FitResult {
  std::vector<EpochResult> epochs = {};  ///< those before a resume included
  int64_t step = 0;                      ///< finished steps
  int64_t steps = 0;                     ///< of the whole run
  double step_us = 0;  ///< median time of a step: batch, forward, backward and optimizer
  int64_t skipped_batches = 0;             ///< batches whose loss was not finite: no update
  int64_t non_finite_elements = 0;         ///< that observers skipped
  int64_t frozen_weights = 0;              ///< by FitOptions::oscillations
  bool stopped = false;                    ///< by FitOptions::stop
  std::optional<int64_t> best_epoch = {};  ///< from 1, by score
  /// Why FitOptions::report could not be written in the end, which ends no run.
  std::string report_failure = {};
};

/// A run that a signal ended. What was trained is in the model, and in the checkpoint.
class FitInterrupted : public console::Interrupted {
 public:
  /// `report_failure` as in FitResult.
  FitInterrupted(int signal, const FitProgress& progress,
                 const std::string& report_failure = {});
  const FitProgress& progress() const { return progress_; }

 private:
  FitProgress progress_;
};

/// Trains `model` on the full batches of `dataset`, shuffled anew each epoch. Throws
/// ArgumentError for options that cannot be and data that do not fit the model, GraphError for
/// a model without a loss, FormatError for a checkpoint of another model, IoError where a
/// checkpoint cannot be written or another run writes it, and FitInterrupted.
FitResult fit(Model& model, const data::Dataset& dataset, const FitOptions& options = {});

}  // namespace qtape
