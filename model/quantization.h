// Post-training quantization of models, and initialization of fine-tuning.
#pragma once

#include <optional>
#include <vector>

#include "qtape/calibrate/calibration.h"
#include "qtape/model/model.h"
#include "qtape/model/passes/insert_quantizers.h"

namespace qtape {

/// Default number of samples for calibration.
inline constexpr int64_t default_calibration_samples = 1000;

/// Returns the number of samples in a batch of calibration on `samples` of them: from half of
/// `Evaluator::batch` to all of it, the one that leaves the fewest samples out of full batches;
/// all samples if there are fewer.
int64_t calibration_batch(int64_t samples);

/// Returns the number of samples that calibration reads of the first `samples` of `dataset`:
/// full batches of `calibration_batch` samples.
int64_t calibrated_samples(const data::Dataset& dataset, int64_t samples);

/// Fills the states of the model's quantizers from the first `samples` of `dataset`, see
/// `calibrate`. Throws like `calibrate`, and ArgumentError for data that do not fit.
std::vector<NodeCalibration> calibrate(Model& model, const data::Dataset& dataset,
                                       const CalibrationOptions& options = {},
                                       int64_t samples = default_calibration_samples,
                                       int threads = default_threads());

/// Calibrates each quantizer by the best of `candidates`, see `search_calibration`.
std::vector<NodeCalibration> search_calibration(Model& model, const data::Dataset& dataset,
                                                const std::vector<ObserverMethod>& candidates,
                                                int64_t samples = default_calibration_samples,
                                                int threads = default_threads());

/// Returns a copy of `model` with quantizers before each product with weights, see
/// `insert_quantizers`. Their states are initial.
Model with_quantizers(const Model& model, const InsertOptions& options);

/// Returns the quantizer of answers for targets whose outputs are codes: of 8 bits, or of 16
/// bits with signed codes if `graph` has codes of more than 8 bits, as layers of TensorFlow
/// Lite read and write codes of one type.
FakeQuantize quantizer_of_answers(const Graph& graph);

/// Returns a copy of `model` whose answers end in codes, as `write_tflite` requires. Answers
/// that are sums get quantizer_of_answers, with the range of the quantized answers on the first
/// `samples` of `dataset`; all stored values are kept. Layers that read such an answer read its
/// codes.
Model with_quantized_answers(const Model& model, const data::Dataset& dataset,
                             int64_t samples = default_calibration_samples,
                             int threads = default_threads());

/// Returns the largest root mean square difference between a column of the answers and the same
/// column without quantizers, over `dataset` and in standard deviations; nullopt if no column
/// varies. Trained networks that keep their accuracy have up to 0.24. AnswerComparison
/// (`model/answer_errors.h`) names the column. Throws ArgumentError for data that do not fit.
std::optional<double> quantization_error(const Model& model, const data::Dataset& dataset,
                                         int threads = default_threads());

/// Copies, by name, the parameters and states of the model that `from` contains, and calibrates
/// the quantizers without states in `from` on `dataset`. Returns the number of copied values.
/// Quantizers whose states `from` contains quantize while the others observe. Throws GraphError
/// for a parameter of the model that `from` lacks or has with a different shape.
int64_t start_from(Model& model, const Parameters& from, const data::Dataset& dataset,
                   int64_t samples = default_calibration_samples,
                   int threads = default_threads());

}  // namespace qtape
