// Calibration: observers collect statistics of the inputs of a graph's quantizers and choose
// ranges, from which the states of the quantizers are set.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/calibrate/observer_method.h"
#include "qtape/engine/tape.h"

namespace qtape {

/// Writes batch `index` (0, 1, ...) to the inputs of `tape`, found by label. Returns false if
/// there is no such batch, which ends a pass. All passes use the same batches. The tape may use
/// only some of the graph's inputs (see `Tape::memory`); the others have no memory.
using BatchSource = std::function<bool(Tape& tape, int64_t index)>;

/// Method for the quantizers whose labels match `pattern`.
struct MethodChoice {
  std::string pattern = {};  ///< `*` matches any text, including none; `?` any single byte
  ObserverMethod method = {};
};

/// Progress of a run, counted in batches over all its passes.
struct CalibrationProgress {
  std::string_view stage;   ///< "observe", or the label of the quantizer being searched
  int64_t batch = 0;        ///< batches finished in this stage
  int64_t stage_index = 0;  ///< from 0
  int64_t stages = 1;
};

/// Default method of a quantizer of at most 4 bits: Lsq for FakeQuantizeLSQ, Mse for
/// FakeQuantizePACT; MinMax for all others.
ObserverMethod default_method(const Op& quantizer);

/// Options of `calibrate`.
struct CalibrationOptions {
  std::optional<ObserverMethod> method = std::nullopt;  ///< default: `default_method`
  /// Method of quantizers whose operand depends on no input, as those of weights; default: as
  /// for all others.
  std::optional<ObserverMethod> constant_method = std::nullopt;
  /// The first choice whose pattern matches is used, before the methods above.
  std::vector<MethodChoice> by_name = {};
  std::function<void(const CalibrationProgress&)> on_batch = {};  ///< called after every batch
  /// Labels of quantizers whose states are kept.
  std::vector<std::string> keep = {};
};

/// Result of the calibration of one quantizer.
struct NodeCalibration {
  NodeId id;
  std::string label;
  ObserverMethod method;
  std::vector<QParams<double>> qparams;  ///< one per channel, as represented by the new states
  int64_t non_finite = 0;                ///< elements that were skipped
};

/// Sets the states of every quantizer with states in the tape's graph (FakeQuantize in Fixed or
/// EMA mode, and learned quantizers) from float passes over `batches`. Quantizers whose input
/// is constant (weights) observe it once. Throws ArgumentError if there is no batch, for a
/// pattern or a kept label that matches no such quantizer and for invalid settings. Throws
/// GraphError for a graph without quantizers to calibrate, and for data that leave a quantizer,
/// which it names, without a finite value. On an error no state is changed.
std::vector<NodeCalibration> calibrate(Tape& tape, const BatchSource& batches,
                                       const CalibrationOptions& options = {});

/// Selects for each quantizer, in graph order, the one of `candidates` that minimises the
/// squared error of the graph's outputs relative to the float outputs, over all batches.
/// Quantizers not yet searched use the first candidate, those whose labels are in `keep` their
/// states. Takes two float passes, and one quantized pass for every quantizer and candidate.
/// Throws as `calibrate` does, and ArgumentError if there are no candidates.
std::vector<NodeCalibration> search_calibration(
    Tape& tape, const BatchSource& batches, const std::vector<ObserverMethod>& candidates,
    const std::function<void(const CalibrationProgress&)>& on_batch = {},
    const std::vector<std::string>& keep = {});

}  // namespace qtape
