// One training run: epochs, checkpoints and what is reported of them.
#pragma once

#include <functional>
#include <optional>

#include "qtape/engine/serialize.h"
#include "qtape/examples/classifier/task.h"
#include "qtape/examples/data/evaluate.h"
#include "qtape/examples/shared/progress.h"
#include "qtape/optim/schedule.h"

namespace qtape::examples {

struct EpochResult {
  int64_t epoch = 0;         ///< from 1
  double loss = 0;           ///< mean over the epoch's finite batches
  double test_accuracy = 0;  ///< percent
};

struct RunOptions {
  int threads = 1;
  std::string checkpoint = {};   ///< file written after every epoch; empty: none
  int64_t checkpoint_every = 0;  ///< and after every so many steps; 0: epochs only
  std::function<void(const Progress&)> on_step = {};
  std::function<void(const EpochResult&)> on_epoch = {};
  std::function<bool()> stop =
      {};  ///< asked after every step; true: a checkpoint, then the end
};

struct RunResult {
  std::vector<EpochResult> epochs = {};
  double step_us = 0;  ///< median time of a step: batch, forward, backward and optimizer
  data::Evaluation test = {};
  std::string parameters_sha256 = {};
  int64_t skipped_batches = 0;      ///< batches whose loss was not finite: no update
  int64_t non_finite_elements = 0;  ///< that observers skipped
  bool stopped = false;             ///< by RunOptions::stop; then nothing was tested
};

/// A training run in memory: made new or from a checkpoint, then `run` to its end.
class Training {
 public:
  /// `data` must outlive it.
  Training(Task task, const data::Split& data);
  /// Goes on from a checkpoint of the same settings. Throws FormatError when it does not fit.
  Training(Task task, Model checkpoint, const data::Split& data);

  /// Takes over what `model` holds of the network's parameters and states, by name, and
  /// calibrates the quantizers whose states it lacks on `batches` training batches. Returns how
  /// many it took over. Throws GraphError for a parameter of the network that it lacks or has
  /// in another shape.
  int64_t start_from(const Model& model, int threads, int64_t batches = 32);

  RunResult run(const RunOptions& options);
  void save(const std::string& path) const;

  const Recipe& recipe() const { return task_.recipe; }
  const Network& network() const { return task_.network; }
  /// Finished steps, and those of the whole run.
  int64_t step() const { return step_; }
  int64_t steps() const { return recipe().epochs * (data_.train.size() / recipe().batch); }
  Parameters& parameters() { return parameters_; }

 private:
  struct Totals {
    double loss = 0;
    int64_t batches = 0;
  };

  struct Run;

  int64_t take_over(const Parameters& from);
  double take_step(Run& run);
  bool after_step(Run& run, double loss);
  void save_checkpoint(const std::string& path, const Run& run) const;
  Section progress() const;
  void restore(const Section& progress);
  EpochResult finish_epoch(data::Evaluator& evaluator);

  Task task_;
  const data::Split& data_;
  Parameters parameters_;
  std::optional<Section> optimizer_;  // of the checkpoint, until the run restores it
  std::optional<Schedule> schedule_;
  int64_t step_ = 0;
  Totals totals_;
  std::vector<EpochResult> epochs_;
  int64_t skipped_ = 0;
  int64_t non_finite_ = 0;
};

}  // namespace qtape::examples
