// A trained network as an integer program: its detection results, and its comparison with
// training.
#pragma once

#include <optional>

#include "qtape/deploy/verify.h"
#include "qtape/examples/train_autoencoder/training.h"

namespace qtape::examples::autoencoder {

struct Deployed {
  IntegerProgram program{};
  Detection test;  ///< by the program's reconstructions, with codes converted to floats
  int64_t samples = 0;
  /// Number of integers and outputs that differ between exact training arithmetic, the
  /// reference and the backend, on the test samples; must be 0.
  int64_t mismatches = 0;
  std::optional<Mismatch> first;
  int64_t float_codes =
      0;  ///< number of codes that rounding of float accumulators changed in training
};

/// Converts the model and runs its program on the test samples. Throws GraphError for a model
/// that cannot be converted.
Deployed deploy(const TrainedModel& model, const data::SpectraSplit& data,
                Requantization requantization, int threads);

}  // namespace qtape::examples::autoencoder
