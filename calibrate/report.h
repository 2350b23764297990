// Reports: what each quantizer of a graph does to its data.
#pragma once

#include <string>
#include <vector>

#include "qtape/calibrate/calibration.h"

namespace qtape {

/// What one quantizer does to the data that reach it, over all batches of a report.
struct QuantizerReport {
  NodeId id;
  std::string label;
  std::string op;  ///< name of the op
  CodeLimits limits;
  int64_t channels = 0;  ///< how many scales it has
  double smallest_scale = 0;
  double largest_scale = 0;
  int64_t elements = 0;    ///< finite ones
  int64_t non_finite = 0;  ///< NaN and infinite ones, not counted elsewhere
  double noise = 0;        ///< mean (fake(x) - x)^2
  /// Signal to quantization noise, 10 log10(mean x^2 / noise), in dB; infinite without noise.
  double sqnr = 0;
  double saturated = 0;  ///< share of elements whose code was clamped, in [0, 1]
  /// Elements of each code from q_min on, codes shared out over at most 256 equal bins.
  std::vector<int64_t> histogram;
  /// Channels all of whose elements had one code.
  int64_t dead_channels = 0;
};

/// Runs the graph quantized over `batches` and reports on every quantizer, in graph order,
/// whether switched on or not. Quantizers that were switched off in `tape` are off. Scales are
/// those in use in each batch. Throws ArgumentError for no batch, GraphError as Tape::forward.
std::vector<QuantizerReport> report_quantizers(
    Tape& tape, const BatchSource& batches,
    const std::function<void(const CalibrationProgress&)>& on_batch = {});

/// A table for people: one line per quantizer.
std::string to_table(const std::vector<QuantizerReport>& reports);
/// The same numbers for programs: a JSON array. An infinite SQNR is null.
std::string to_json(const std::vector<QuantizerReport>& reports);

}  // namespace qtape
