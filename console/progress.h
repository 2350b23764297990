// Progress of a training run: a bar on a terminal, a line per epoch elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace qtape::console {

/// Where a run stands, after every step.
struct Progress {
  int64_t step = 0;   ///< finished steps
  int64_t steps = 0;  ///< of the whole run
  int64_t epoch = 0;  ///< from 1
  double loss = 0;    ///< of the last step
};

/// What stands after a bar.
struct ProgressText {
  std::string loss;    ///< "0.1234"
  std::string result;  ///< of the last epoch, as "test accuracy 93.10 %"; may be empty
  std::string left;    ///< "12 s"
};

/// One line with less than `columns` characters: what does not fit goes, first the bar, then
/// the result, the time left and the loss.
std::string progress_line(const Progress& progress, const ProgressText& text, int columns);

/// Draws the progress of a run.
class ProgressDisplay {
 public:
  /// `first_step`: steps that were done before this run; `digits` of the loss after the point.
  /// Draws on standard output; never throws.
  explicit ProgressDisplay(int64_t first_step, int digits = 4);

  void step(const Progress& progress);
  /// After epoch `number`, from 1: its mean loss and what a test of it gave, as
  /// "test accuracy 93.10 %".
  void epoch(int64_t number, double loss, const std::string& result);

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  int64_t first_step_;
  int digits_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  std::string result_;
};

}  // namespace qtape::console
