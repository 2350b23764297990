// Post-training quantization of models, and the start of fine-tuning.
#pragma once

#include <vector>

#include "qtape/calibrate/calibration.h"
#include "qtape/model/insert_quantizers.h"
#include "qtape/model/model.h"

namespace qtape {

/// Samples that scales are calibrated on where nothing else is said.
inline constexpr int64_t usual_calibration_samples = 1000;

/// Fills the states of the model's quantizers from the first `samples` of `dataset`, see
/// `calibrate`. Throws as it does, and ArgumentError for data that do not fit.
std::vector<NodeCalibration> calibrate(Model& model, const data::Dataset& dataset,
                                       const CalibrationOptions& options = {},
                                       int64_t samples = usual_calibration_samples,
                                       int threads = default_threads());

/// The same by the best of `candidates` for each quantizer, see `search_calibration`.
std::vector<NodeCalibration> search_calibration(Model& model, const data::Dataset& dataset,
                                                const std::vector<ObserverMethod>& candidates,
                                                int64_t samples = usual_calibration_samples,
                                                int threads = default_threads());

/// A copy of `model` with quantizers before each product with weights, see `insert_quantizers`.
/// Their states are those of fresh ones.
Model with_quantizers(const Model& model, const InsertOptions& options);

/// Takes over what `from` holds of the model's parameters and states, by name, and calibrates
/// the quantizers whose states it lacks on `dataset`. Returns how many it took over. Throws
/// GraphError for a parameter of the model that it lacks or has in another shape.
int64_t start_from(Model& model, const Parameters& from, const data::Dataset& dataset,
                   int64_t samples = usual_calibration_samples,
                   int threads = default_threads());

}  // namespace qtape
