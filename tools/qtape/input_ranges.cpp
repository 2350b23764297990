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
std::vector<double> relative_errors(const data::Dataset& set, size_t column,
                                    const Shape& sample, QParams<double> qparams,
                                    CodeLimits limits) {
  std::vector<RelativeError> columns(static_cast<size_t>(sample.rank() == 0 ? 1 : sample[-1]));
  std::vector<float> values(static_cast<size_t>(sample.elements()));
  for (int64_t i = 0; i < std::min(set.size(), max_compared); ++i) {
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

}  // namespace

void note_narrow_columns(const Model& model, const data::Dataset& set) {
  const Graph& graph = model.graph();
  const std::vector<NodeId> answers = graph.answers();
  const std::vector<FedInput> inputs = inputs_for(graph, answers);
  const std::vector<size_t> columns = columns_for(inputs, set);
  std::set<std::string> seen;
  for (const NodeId id : quantizers(graph)) {
    const Node& input = graph[origin_of(graph, graph[id].operands[0])];
    const auto found = std::ranges::find(inputs, input.label, &FedInput::label);
    if (found == inputs.end() || !std::holds_alternative<Input>(input.op)) continue;
    const std::vector<QParams<double>> qparams = qtape::qparams(graph, model.parameters(), id);
    if (qparams.size() != 1 || !seen.insert(input.label).second) continue;
    const size_t place = columns[static_cast<size_t>(found - inputs.begin())];
    const std::vector<double> errors =
        relative_errors(set, place, found->sample, qparams[0], grid_of(graph, id).limits);
    const double limit = max_error(found->sample);
    const auto count = std::ranges::count_if(errors, [&](double each) { return each > limit; });
    if (count == 0) continue;
    const auto worst = std::ranges::max_element(errors);
    console::print(
        "input '{}': its quantizer, of scale {:.3g}, changes {} of {} columns by more than {:.0f} % "
        "of their standard deviation, most column {} ({:.0f} %): give columns similar ranges "
        "before the model, or its input more bits\n",
        printable(input.label), qparams[0].scale, count, errors.size(), 100 * limit,
        worst - errors.begin(), 100 * *worst);
  }
}

}  // namespace qtape::tool
