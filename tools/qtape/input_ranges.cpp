#include "qtape/tools/qtape/input_ranges.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "qtape/core/printable.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/feed.h"
#include "qtape/model/relative_error.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape::tool {
namespace {

constexpr int64_t max_compared = 1000;

/// Returns the part of its standard deviation by which quantization may change a column. Many
/// columns, and those of several places, are of an image or a signal in one unit, whose edges
/// hardly vary.
double max_error(const Shape& sample) {
  constexpr int64_t few = 64;
  return sample.rank() <= 1 && sample.elements() <= few ? 0.1 : 0.5;
}

/// Returns the relative error of each column of an input in a data set.
std::vector<double> relative_errors(const data::Dataset& set, int64_t samples, size_t column,
                                    const Shape& sample, QParams<double> qparams,
                                    CodeLimits limits) {
  std::vector<RelativeError> columns(static_cast<size_t>(sample.rank() == 0 ? 1 : sample[-1]));
  std::vector<float> values(static_cast<size_t>(sample.elements()));
  for (int64_t i = 0; i < std::min({set.size(), samples, max_compared}); ++i) {
    set.read(column, i, std::span(values));
    for (size_t k = 0; k < values.size(); ++k) {
      const double x = double{values[k]};
      if (!std::isfinite(x)) continue;
      const double code =
          std::clamp(std::nearbyint(x / qparams.scale) + qparams.zero_point,
                     static_cast<double>(limits.q_min), static_cast<double>(limits.q_max));
      columns[k % columns.size()].add(x, (code - qparams.zero_point) * qparams.scale - x);
    }
  }
  std::vector<double> errors;
  for (const RelativeError& each : columns) errors.push_back(each.varying());
  return errors;
}

/// An input that a quantizer reads, with its column.
struct QuantizedInput {
  NodeId quantizer;
  std::string label;
  Shape sample;
  size_t column;
};

/// Returns the inputs whose quantizers have one scale, once each.
std::vector<QuantizedInput> quantized_inputs(const Model& model, const data::Dataset& set) {
  const Graph& graph = model.graph();
  const std::vector<NodeId> answers = graph.answers();
  const std::vector<FedInput> inputs = inputs_for(graph, answers);
  const std::vector<size_t> columns = columns_for(inputs, set);
  std::set<std::string> seen;
  std::vector<QuantizedInput> made;
  for (const NodeId id : quantizers(graph)) {
    const Node& input = graph[origin_of(graph, graph[id].operands[0])];
    const auto found = std::ranges::find(inputs, input.label, &FedInput::label);
    if (found == inputs.end() || !std::holds_alternative<Input>(input.op)) continue;
    const size_t column = columns[static_cast<size_t>(found - inputs.begin())];
    if (qparams(graph, model.parameters(), id).size() != 1 || column == no_column) continue;
    if (!seen.insert(input.label).second) continue;
    made.push_back({id, input.label, found->sample, column});
  }
  return made;
}

/// Samples of which an input has values far from those of all others.
struct FarSamples {
  std::vector<int64_t> samples = {};  // in order
  float usual = 0;                    // largest magnitude of all others
  float largest = 0;
};

FarSamples find_far(const QuantizedInput& input, const data::Dataset& set, int64_t samples) {
  constexpr int64_t least = 20;
  constexpr int64_t few = 100;
  constexpr float far = 10;
  const int64_t count = std::min(set.size(), samples);
  if (count < least) return {};
  std::vector<float> all;
  std::vector<float> values(static_cast<size_t>(input.sample.elements()));
  for (int64_t i = 0; i < count; ++i) {
    set.read(input.column, i, std::span(values));
    float& most = all.emplace_back(0.0f);
    for (const float each : values) {
      if (std::isfinite(each)) most = std::max(most, std::fabs(each));
    }
  }
  std::vector<float> sorted = all;
  std::ranges::sort(sorted);
  FarSamples found;
  found.usual = sorted[static_cast<size_t>(count - 1 - std::max<int64_t>(1, count / few))];
  found.largest = sorted.back();
  for (int64_t i = 0; i < count && found.usual > 0; ++i) {
    if (all[static_cast<size_t>(i)] > far * found.usual) found.samples.push_back(i);
  }
  return found;
}

/// Returns the largest magnitude that a quantizer represents.
double reach_of(const Model& model, NodeId quantizer) {
  const QParams<double> q = qparams(model.graph(), model.parameters(), quantizer)[0];
  const CodeLimits limits = grid_of(model.graph(), quantizer).limits;
  return q.scale * std::max(std::fabs(limits.q_min - q.zero_point),
                            std::fabs(limits.q_max - q.zero_point));
}

}  // namespace

void note_narrow_columns(const Model& model, const data::Dataset& set, int64_t samples) {
  for (const QuantizedInput& input : quantized_inputs(model, set)) {
    const QParams<double> qparams =
        qtape::qparams(model.graph(), model.parameters(), input.quantizer)[0];
    const std::vector<double> errors =
        relative_errors(set, samples, input.column, input.sample, qparams,
                        grid_of(model.graph(), input.quantizer).limits);
    const double limit = max_error(input.sample);
    const auto count = std::ranges::count_if(errors, [&](double each) { return each > limit; });
    if (count == 0) continue;
    const auto worst = std::ranges::max_element(errors);
    console::print(
        "input '{}': its quantizer, of scale {:.3g}, changes {} of {} columns by more than {:.0f} % "
        "of their standard deviation, most column {} ({:.0f} %): scale the columns to similar "
        "ranges before the model, or give the input more bits\n",
        printable(input.label), qparams.scale, count, errors.size(), 100 * limit,
        worst - errors.begin(), 100 * *worst);
  }
}

std::vector<int64_t> far_samples(const Model& model, const data::Dataset& set) {
  std::set<int64_t> found;
  for (const QuantizedInput& input : quantized_inputs(model, set)) {
    const FarSamples far = find_far(input, set, set.size());
    found.insert(far.samples.begin(), far.samples.end());
  }
  return {found.begin(), found.end()};
}

void warn_of_far_samples(const Model& model, const data::Dataset& set, int64_t samples) {
  for (const QuantizedInput& input : quantized_inputs(model, set)) {
    const FarSamples far = find_far(input, set, samples);
    // Some observers leave far values out of the range.
    if (far.samples.empty() || reach_of(model, input.quantizer) < far.largest / 2) continue;
    console::print(
        "warning: input '{}': values of {} of {} samples reach {:.3g} (the first is sample {}), "
        "those of all others stay within {:.3g}; one scale covers all: remove such samples, or "
        "compare --observer all\n",
        printable(input.label), far.samples.size(), std::min(set.size(), samples), far.largest,
        far.samples[0], far.usual);
  }
}

}  // namespace qtape::tool
