// Reports on the effect of each quantizer of a graph on its data.
#pragma once

#include <string>
#include <vector>

#include "qtape/calibrate/calibration.h"

namespace qtape {

/// Effect of one quantizer on its input, over all batches of a report.
struct QuantizerReport {
  NodeId id;
  std::string label;
  std::string op;  ///< name of the op
  CodeLimits limits;
  int64_t channels = 0;  ///< number of scales
  double smallest_scale = 0;
  double largest_scale = 0;
  int64_t elements = 0;    ///< finite elements; of weights, those of one batch
  int64_t non_finite = 0;  ///< NaN and infinite elements, which count nowhere else
  double noise = 0;        ///< mean (fake(x) - x)^2
  /// Signal-to-quantization-noise ratio, 10 log10(mean x^2 / noise), in dB; infinite without
  /// noise.
  double sqnr = 0;
  double saturated = 0;  ///< fraction of elements whose code was clamped, in [0, 1]
  /// Number of elements by code, from q_min on. More than 256 codes are grouped into equal
  /// bins.
  std::vector<int64_t> histogram;
  /// Number of channels all of whose elements had the same code, other than channels of a
  /// single element that is not 0.
  int64_t dead_channels = 0;
};

/// Runs the graph quantized over `batches` and reports on every quantizer, in graph order,
/// including those that are switched off in `tape`, which remain off. Scales are those in use
/// in each batch. Throws ArgumentError if there is no batch, and GraphError as Tape::forward
/// does.
std::vector<QuantizerReport> report_quantizers(
    Tape& tape, const BatchSource& batches,
    const std::function<void(const CalibrationProgress&)>& on_batch = {});

/// Formats a table with one line per quantizer.
std::string to_table(const std::vector<QuantizerReport>& reports);
/// Formats the reports as a JSON array. An infinite SQNR is null.
std::string to_json(const std::vector<QuantizerReport>& reports);

}  // namespace qtape
