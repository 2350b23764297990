// Progress of a training run: a bar on a terminal, a line per epoch elsewhere.
#pragma once

#include <chrono>

#include "qtape/examples/train_mlp/training.h"

namespace qtape::examples {

class ProgressDisplay {
 public:
  /// `first_step`: steps that were done before this run. Draws on standard output.
  explicit ProgressDisplay(int64_t first_step);

  void step(const Progress& progress);
  void epoch(const EpochResult& result);

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  int64_t first_step_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  Progress last_;
  double accuracy_ = -1;
};

}  // namespace qtape::examples
