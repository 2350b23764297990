// Recorder: keeps the record of a run of fit, for FitOptions::report.
#pragma once

#include <string>

#include "qtape/engine/file_lock.h"
#include "qtape/model/fit.h"
#include "qtape/report/run_record.h"

namespace qtape {

class Recorder {
 public:
  /// Begins the record of a run on `tape`, in a folder that it makes. All of these must outlive
  /// it. Throws IoError for a folder that cannot be written or that another run writes.
  Recorder(const std::string& folder, const Model& model, const data::Dataset& dataset,
           const Tape& tape, int64_t batch);

  void set_plan(int64_t steps, const Metric& metric);
  /// Goes on after `step` steps with what the folder has of them, if it has a record; the
  /// epochs are `finished`. Throws FormatError for the record of another run and for what is
  /// none.
  void resume(int64_t step, std::span<const EpochResult> finished);
  void add_step(double loss, double microseconds);
  /// After the last step of `epoch`.
  void add_epoch(const EpochResult& epoch, double learning_rate);
  /// Writes the record. A failure is kept, and training goes on.
  void write(report::RunState state);
  /// What the last write failed with; empty where it did not.
  const std::string& failure() const { return failure_; }

 private:
  void add_scales(size_t epochs);
  void measure_quantizers();
  void add_times();

  std::string folder_;
  FileLock lock_;  // of its record
  const Model& model_;
  const data::Dataset& dataset_;
  const Tape& tape_;
  report::RunRecord record_;
  int64_t timed_steps_ = 0;
  double microseconds_ = 0;  // of these
  std::string failure_;
};

}  // namespace qtape
