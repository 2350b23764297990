// The three models of a run: float, calibrated afterwards, trained with quantizers.
#pragma once

#include <vector>

#include "qtape/data/generated/spectra.h"
#include "qtape/examples/train_autoencoder/detector.h"
#include "qtape/examples/train_autoencoder/network.h"
#include "qtape/model/fit.h"

namespace qtape::examples::autoencoder {

/// A model and its results.
struct TrainedModel {
  Model model;
  std::vector<EpochResult> epochs;  ///< all epochs that its values were trained for, with AUC
                                    ///< as score
  std::optional<double> step_us;    ///< median time of a step of its last training
  int64_t skipped_batches = 0;      ///< batches without update because their loss was not
                                    ///< finite
  std::string report_failure = {};  ///< of its last training, see FitResult
  Detection test;
};

struct RunOptions {
  int threads = 1;
  bool progress = false;
  std::string report = {};  ///< folder for the run's record; empty: none
};

/// Generates the samples of a run.
data::SpectraSplit load_data(const Settings& settings);

/// Trains the float network for `epochs` epochs by Adam; the learning rate falls to 0 by half a
/// cosine.
TrainedModel train_float(const Settings& settings, const data::SpectraSplit& data,
                         const RunOptions& options);
/// Continues training of the float model in float for as many epochs as train_quantized, so
/// that both models have the same total number.
TrainedModel continue_float(const Settings& settings, const data::SpectraSplit& data,
                            const TrainedModel& trained, const RunOptions& options);
/// Quantizes the float model after training, by calibration.
TrainedModel calibrate_float(const Settings& settings, const data::SpectraSplit& data,
                             const TrainedModel& trained, int threads);
/// Trains with quantizers for `qat_epochs` epochs, starting from the weights of the float
/// model. With 4 bits and 60 epochs in total, 30 in float and 30 with quantizers reach an AUC
/// of 0.916, 60 with quantizers from random weights 0.843.
TrainedModel train_quantized(const Settings& settings, const data::SpectraSplit& data,
                             const TrainedModel& trained, const RunOptions& options);

}  // namespace qtape::examples::autoencoder
