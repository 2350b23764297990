// A training run of a classifier: its validation and its results.
#pragma once

#include <string>

#include "qtape/data/dataset.h"
#include "qtape/examples/classifier/training_settings.h"
#include "qtape/model/fit.h"

namespace qtape::examples {

struct RunResult {
  FitResult fit = {};
  Evaluation test = {};
  std::string parameters_sha256 = {};
};

/// Trains with `options`, which are those of `fit_options` with additions of a program, and
/// evaluates the test set, in the arithmetic of the recipe. A stopped run is not tested.
RunResult train(Model& model, const TrainingSettings& recipe, const data::Split& data,
                FitOptions options);

}  // namespace qtape::examples
