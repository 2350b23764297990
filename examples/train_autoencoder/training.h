// The three models of a run: float, calibrated afterwards, trained with quantizers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qtape/engine/parameters.h"
#include "qtape/examples/data/spectra.h"
#include "qtape/examples/shared/progress.h"
#include "qtape/examples/train_autoencoder/detector.h"
#include "qtape/examples/train_autoencoder/network.h"

namespace qtape::examples::autoencoder {

struct EpochResult {
  int64_t epoch = 0;  ///< from 1
  double loss = 0;    ///< mean over the epoch's finite batches
  double auc = 0;     ///< of the test samples
};

struct RunOptions {
  int threads = 1;
  std::function<void(const Progress&)> on_step;
  std::function<void(const EpochResult&)> on_epoch;
};

/// A network with its values and what it reached.
struct TrainedModel {
  Network network;
  Parameters parameters;
  std::vector<EpochResult> epochs;  ///< all that its values have seen
  double step_us = 0;               ///< median time of a step of its last training
  int64_t skipped_batches = 0;      ///< batches whose loss was not finite: no update
  Detection test;
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
