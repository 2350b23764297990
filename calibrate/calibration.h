// Calibration: observers look at what reaches the quantizers of a graph, then its states are
// filled with what they chose.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/calibrate/observer.h"
#include "qtape/engine/tape.h"

namespace qtape {

/// Writes batch `index` (0, 1, ...) to the inputs of `tape`, found by label; false where there
/// is none, which ends a pass. Passes repeat the same batches. The tape may need only some
/// of the graph's inputs, which `Tape::memory` tells; the others have no memory.
using BatchSource = std::function<bool(Tape& tape, int64_t index)>;

/// A method for the quantizers whose labels match `pattern`.
struct MethodChoice {
  std::string pattern = {};  ///< `*` is any text, also none, `?` any one byte
  ObserverMethod method = {};
};

/// How far a long run is: batches of all its passes.
struct CalibrationProgress {
  std::string_view stage;   ///< "observe", or the label of the quantizer that is searched for
  int64_t batch = 0;        ///< finished in this stage
  int64_t stage_index = 0;  ///< from 0
  int64_t stages = 1;
};

/// The method by which a quantizer is calibrated unless another is asked for: Lsq for learned
/// scales of at most 4 bits, else MinMax.
ObserverMethod usual_method(const Op& quantizer);

/// How quantizers are calibrated.
struct CalibrationOptions {
  std::optional<ObserverMethod> method = std::nullopt;  ///< without one, `usual_method`
  /// The first whose pattern matches wins; the others follow `method`.
  std::vector<MethodChoice> by_name = {};
  std::function<void(const CalibrationProgress&)> on_batch = {};  ///< called after every batch
};

/// What calibration did to one quantizer.
struct NodeCalibration {
  NodeId id;
  std::string label;
  ObserverMethod method;
  std::vector<QParams<double>> qparams;  ///< one per channel, as the states now stand for
  int64_t non_finite = 0;                ///< elements that were skipped
};

/// Fills the states of every quantizer of the tape's graph that has some (FakeQuantize in Fixed
/// or EMA, learned quantizers) from float passes over `batches`. What a quantizer sees is the
/// same in every batch (weights) is observed once. Throws ArgumentError for no batch, a pattern
/// that matches no quantizer and settings that cannot be; GraphError for a graph without such
/// quantizers and for data that leave one without a finite value, which it names. States change
/// only when everything succeeded.
std::vector<NodeCalibration> calibrate(Tape& tape, const BatchSource& batches,
                                       const CalibrationOptions& options = {});

/// Chooses for each quantizer, in graph order, the one of `candidates` that brings the graph's
/// float outputs closest to what they are without quantizers, in squared error over all
/// batches; quantizers not yet searched stand at the first candidate. One float pass, and one
/// quantized pass for every quantizer and candidate. Throws as `calibrate`, and ArgumentError
/// for no candidates.
std::vector<NodeCalibration> search_calibration(
    Tape& tape, const BatchSource& batches, const std::vector<ObserverMethod>& candidates,
    const std::function<void(const CalibrationProgress&)>& on_batch = {});

}  // namespace qtape
