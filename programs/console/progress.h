// Progress of a training run: a bar on a terminal, otherwise one line per epoch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace qtape::console {

/// Progress after a step.
struct Progress {
  int64_t step = 0;   ///< finished steps
  int64_t steps = 0;  ///< steps of the whole run
  int64_t epoch = 0;  ///< from 1
  double loss = 0;    ///< loss of the last step
};

/// Texts after the bar.
struct ProgressText {
  std::string loss;    ///< "0.1234"
  std::string result;  ///< last epoch's, such as "test accuracy 93.10 %"; may be empty
  std::string left;    ///< time left: "12 s"
};

/// One line with fewer than `columns` characters. Parts that do not fit are omitted in this
/// order: the bar, the result, the time left, the loss.
std::string progress_line(const Progress& progress, const ProgressText& text, int columns);

/// Returns the loss with `digits` after the point, or with four significant digits and a power
/// of ten where these would show hardly any of it or far more.
std::string loss_text(double loss, int digits);

/// Displays the progress of a run.
class ProgressDisplay {
 public:
  /// `first_step`: number of steps before this run. `digits`: decimals of the loss, unless it
  /// is small or large. Draws on standard output; never throws.
  explicit ProgressDisplay(int64_t first_step, int digits = 4);

  void step(const Progress& progress);
  /// Displays that a run of `epochs` epochs has no steps left.
  void finished(int64_t epochs);
  /// Displays the end of epoch `number` (from 1): its mean loss and its result, such as "test
  /// accuracy 93.10 %".
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
