// Recorder: writes the record of a run of fit, for FitOptions::report.
#pragma once

#include <string>

#include "qtape/io/file_lock.h"
#include "qtape/model/fit.h"
#include "qtape/model/training/run_record.h"

namespace qtape {

class Recorder {
 public:
  /// Starts the record of a run on `tape`, in a folder that is created if necessary. All
  /// arguments must outlive the recorder. Throws IoError for a folder that cannot be written or
  /// to which another run writes.
  Recorder(const std::string& folder, const Model& model, const data::Dataset& dataset,
           const Tape& tape, int64_t batch);

  void set_plan(int64_t steps, const Metric& metric);
  /// Continues after `step` steps with the part of the folder's record that belongs to them, if
  /// there is a record; `finished` are the completed epochs. Throws FormatError for the record
  /// of another run and for files that are not a record.
  void resume(int64_t step, std::span<const EpochResult> finished);
  void add_step(double loss, double microseconds);
  /// Must be called after the last step of `epoch`.
  void add_epoch(const EpochResult& epoch, double learning_rate);
  /// Writes the record. A failure is stored and does not stop training.
  void write(report::RunState state);
  /// Returns the failure of the last write; empty if it succeeded.
  const std::string& failure() const { return failure_; }

 private:
  void add_scales(size_t epochs);
  void measure_quantizers();
  void add_times();

  std::string folder_;
  FileLock lock_;  // locks the record
  const Model& model_;
  const data::Dataset& dataset_;
  const Tape& tape_;
  report::RunRecord record_;
  int64_t timed_steps_ = 0;
  double microseconds_ = 0;  // time of these steps
  std::string failure_;
};

}  // namespace qtape
