// The three models of a run: float, calibrated afterwards, trained with quantizers.
#pragma once

#include <vector>

#include "qtape/examples/data/spectra.h"
#include "qtape/examples/train_autoencoder/detector.h"
#include "qtape/examples/train_autoencoder/network.h"
#include "qtape/model/fit.h"

namespace qtape::examples::autoencoder {

/// A model and what it reached.
struct TrainedModel {
  Model model;
  std::vector<EpochResult> epochs;  ///< all that its values have seen, judged by AUC
  double step_us = 0;               ///< median time of a step of its last training
  int64_t skipped_batches = 0;      ///< batches whose loss was not finite: no update
  std::string report_failure = {};  ///< of its last training, see FitResult
  Detection test;
};

struct RunOptions {
  int threads = 1;
  bool progress = false;
  std::string report = {};  ///< folder of the run's record; empty: none
};

/// The generated samples of a run.
data::SpectraSplit load_data(const Settings& settings);

/// Trains the float network for `epochs` by Adam, the learning rate falling to 0 by half a
/// cosine.
TrainedModel train_float(const Settings& settings, const data::SpectraSplit& data,
                         const RunOptions& options);
/// Goes on from the float model in float just as train_quantized does with quantizers, so that
/// both have seen the same number of epochs.
TrainedModel continue_float(const Settings& settings, const data::SpectraSplit& data,
                            const TrainedModel& trained, const RunOptions& options);
/// Post-training quantization of the float model.
TrainedModel calibrate_float(const Settings& settings, const data::SpectraSplit& data,
                             const TrainedModel& trained, int threads);
/// Quantization-aware training for `qat_epochs`, from the weights of the float model: with 4
/// bits and 60 epochs in all, 30 in float and 30 with quantizers reach an AUC of 0.916, 60 with
/// quantizers from fresh weights 0.843.
TrainedModel train_quantized(const Settings& settings, const data::SpectraSplit& data,
                             const TrainedModel& trained, const RunOptions& options);

}  // namespace qtape::examples::autoencoder
