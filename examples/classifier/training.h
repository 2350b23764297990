// One training run of a classifier: what it is judged by, and what is reported of it.
#pragma once

#include <string>

#include "qtape/data/dataset.h"
#include "qtape/examples/classifier/recipe.h"
#include "qtape/model/fit.h"

namespace qtape::examples {

struct RunResult {
  FitResult fit = {};
  Evaluation test = {};
  std::string parameters_sha256 = {};
};

/// Trains by `options`, those of `fit_options` with what a program adds, and judges by the test
/// set, in the arithmetic of the recipe. A run that was stopped is not tested.
RunResult train(Model& model, const Recipe& recipe, const data::Split& data,
                FitOptions options);

}  // namespace qtape::examples
