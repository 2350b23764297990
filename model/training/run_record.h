// Record of a training run: curves, scales, codes, memory and times.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "qtape/calibrate/report.h"
#include "qtape/core/enum_names.h"
#include "qtape/core/fields.h"

namespace qtape::report {

/// State of a run.
enum class RunState : uint8_t {
  Running,   ///< or killed
  Stopped,   ///< stopped by a signal or by the user
  Finished,  ///< all epochs, or fewer if patience ended the run
  Failed     ///< ended by an error
};

/// Means of a series of any length, at most `max_points` of them: beyond that, pairs of means
/// are merged.
struct Curve {
  static constexpr size_t max_points = 1024;

  int64_t stride = 1;  ///< steps per mean
  /// Mean of the finite values of steps i stride + 1 to (i + 1) stride; empty if there are
  /// none.
  std::vector<std::optional<double>> means = {};
  /// Sums over the steps after the last mean.
  double rest_sum = 0;
  int64_t rest_finite = 0;
  int64_t rest_steps = 0;

  /// Adds the value of the next step.
  void add(double value);
  /// Number of steps added.
  int64_t steps() const { return static_cast<int64_t>(means.size()) * stride + rest_steps; }
  /// Removes the values of steps after `steps`, rounded to a whole stride.
  void keep(int64_t steps);

  static constexpr auto fields() {
    return std::tuple(
        field("stride", &Curve::stride, "steps of one mean"),
        field("means", &Curve::means, "means of finite values"),
        field("rest_sum", &Curve::rest_sum, "sum after the last mean"),
        field("rest_finite", &Curve::rest_finite, "finite values after the last mean"),
        field("rest_steps", &Curve::rest_steps, "steps after the last mean"));
  }
};

/// Results of one epoch.
struct RunEpoch {
  int64_t epoch = 0;  ///< from 1
  int64_t step = 0;   ///< number of finished steps
  std::optional<double> loss = {};
  std::optional<double> score = {};
  double learning_rate = 0;

  static constexpr auto fields() {
    return std::tuple(field("epoch", &RunEpoch::epoch, "from 1"),
                      field("step", &RunEpoch::step, "finished steps"),
                      field("loss", &RunEpoch::loss, "mean over the epoch"),
                      field("score", &RunEpoch::score, "by the run's metric"),
                      field("learning_rate", &RunEpoch::learning_rate, "of its last step"));
  }
};

/// Smallest, median and largest scale of one quantizer at the end of each epoch; null before
/// its first batch.
struct ScaleCurve {
  std::string label = {};
  std::vector<std::optional<double>> smallest = {};
  std::vector<std::optional<double>> middle = {};  ///< median
  std::vector<std::optional<double>> largest = {};

  /// Resizes the curves to `epochs` elements; added elements are null.
  void resize(size_t epochs);

  static constexpr auto fields() {
    return std::tuple(field("label", &ScaleCurve::label, "of the quantizer"),
                      field("smallest", &ScaleCurve::smallest, "by epoch"),
                      field("middle", &ScaleCurve::middle, "median, by epoch"),
                      field("largest", &ScaleCurve::largest, "by epoch"));
  }
};

/// Effect of one quantizer on training samples after the last epoch: a QuantizerReport.
struct QuantizerSummary {
  std::string label = {};
  int64_t q_min = 0;
  int64_t q_max = 0;
  int64_t channels = 0;
  int64_t dead_channels = 0;
  std::optional<double> sqnr = {};  ///< in dB; empty if infinite
  double saturated = 0;             ///< fraction of elements, in [0, 1]
  std::vector<int64_t> histogram = {};

  static constexpr auto fields() {
    using Q = QuantizerSummary;
    return std::tuple(field("label", &Q::label, "of the quantizer"),
                      field("q_min", &Q::q_min, "smallest code"),
                      field("q_max", &Q::q_max, "largest code"),
                      field("channels", &Q::channels, "channels"),
                      field("dead_channels", &Q::dead_channels, "of one code"),
                      field("sqnr_db", &Q::sqnr, "signal to quantization noise"),
                      field("saturated", &Q::saturated, "share of elements"),
                      field("histogram", &Q::histogram, "elements by code"));
  }
};

/// Memory of a step. `live` contains the number of arena bytes in use at each time. Node i of n
/// runs forward at time i, and backward at time 2n - 1 - i.
struct StepMemory {
  int64_t parameter_bytes = 0;  ///< values, gradients and states
  int64_t arena_bytes = 0;
  std::vector<int64_t> live = {};
  std::string peak_node = {};  ///< node that runs at the time of largest use

  static constexpr auto fields() {
    return std::tuple(
        field("parameter_bytes", &StepMemory::parameter_bytes, "values, gradients and states"),
        field("arena_bytes", &StepMemory::arena_bytes, "size of the arena"),
        field("live", &StepMemory::live, "bytes in use, by time"),
        field("peak_node", &StepMemory::peak_node, "node at which most bytes are in use"));
  }
};

/// Time of all nodes of one op, per step.
struct OpTime {
  std::string op = {};
  double forward_us = 0;
  double backward_us = 0;

  static constexpr auto fields() {
    return std::tuple(field("op", &OpTime::op, "name"),
                      field("forward_us", &OpTime::forward_us, "us per step"),
                      field("backward_us", &OpTime::backward_us, "us per step"));
  }
};

/// All data recorded of one run.
struct RunRecord {
  std::string name = {};
  RunState state = RunState::Running;
  int64_t step = 0;   ///< number of finished steps
  int64_t steps = 0;  ///< steps of the whole run
  int64_t batch = 0;
  int64_t threads = 0;
  int64_t parameters = 0;   ///< number of trained values
  double mean_step_us = 0;  ///< mean over the steps since the run was started or resumed
  /// Name of the scores, such as "test accuracy"; empty if there are none.
  std::string metric = {};
  std::string unit = {};  ///< unit of the scores, such as " %"
  bool higher_is_better = true;
  Curve loss = {};
  std::vector<RunEpoch> epochs = {};
  std::vector<ScaleCurve> scales = {};
  std::vector<QuantizerSummary> quantizers = {};
  StepMemory memory = {};
  std::vector<OpTime> times = {};

  static constexpr auto fields() {
    using R = RunRecord;
    return std::tuple(
        field("name", &R::name, "of the run"), field("state", &R::state, "state of the run"),
        field("step", &R::step, "finished steps"), field("steps", &R::steps, "of the run"),
        field("batch", &R::batch, "samples per step"), field("threads", &R::threads, "threads"),
        field("parameters", &R::parameters, "number of trainable elements"),
        field("mean_step_us", &R::mean_step_us, "mean time of a step"),
        field("metric", &R::metric, "metric of the scores"),
        field("unit", &R::unit, "unit of the scores"),
        field("higher_is_better", &R::higher_is_better, "of scores"),
        field("loss", &R::loss, "by step"), field("epochs", &R::epochs, "by epoch"),
        field("scales", &R::scales, "by quantizer"),
        field("quantizers", &R::quantizers, "codes by quantizer"),
        field("memory", &R::memory, "of a step"), field("times", &R::times, "by op"));
  }
};

/// Summaries of `reports`, in order.
std::vector<QuantizerSummary> summaries(std::span<const QuantizerReport> reports);

/// Path of the record file in a run's directory.
std::string run_file(const std::string& folder);

/// Creates the directory of a run if it does not exist. Throws IoError if no record could be
/// written to it.
void require_run_folder(const std::string& folder);

/// Writes `record` to `<folder>/run.json`; on failure the old file is kept. Throws IoError.
void write_run(const std::string& folder, const RunRecord& record);

/// Reads the record in a directory written by `write_run`, or in such a file. Throws IoError,
/// and FormatError that starts with the path of the file.
RunRecord read_run(const std::string& path);

/// Formats the record as JSON.
std::string to_json(const RunRecord& record);

}  // namespace qtape::report

namespace qtape {
template <>
inline constexpr auto enum_names<report::RunState> =
    std::array<std::string_view, 4>{"Running", "Stopped", "Finished", "Failed"};
}  // namespace qtape
