// The report of a training run, as JSON for other programs.
#pragma once

#include <string>

#include "qtape/examples/train_mlp/training.h"

namespace qtape::examples {

/// All settings, per-epoch loss and accuracy, median step time and final results.
std::string report_json(const Settings& settings, int threads, const RunResult& result);

}  // namespace qtape::examples
