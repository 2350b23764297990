#include "qtape/tools/qtape/input_ranges.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "qtape/core/printable.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/feed.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape::tool {
namespace {

constexpr int64_t max_compared = 1000;
// Columns that vary by less than this many steps are named.
constexpr double min_steps = 2;

/// Returns by how much each column of an input varies in a data set.
std::vector<double> spreads(const data::Dataset& set, size_t column, const Shape& sample) {
  const auto columns = static_cast<size_t>(sample.rank() == 0 ? 1 : sample[-1]);
  std::vector<float> low(columns, std::numeric_limits<float>::infinity());
  std::vector<float> high(columns, -std::numeric_limits<float>::infinity());
  std::vector<float> values(static_cast<size_t>(sample.elements()));
  for (int64_t i = 0; i < std::min(set.size(), max_compared); ++i) {
    set.read(column, i, std::span(values));
    for (size_t k = 0; k < values.size(); ++k) {
      low[k % columns] = std::min(low[k % columns], values[k]);
      high[k % columns] = std::max(high[k % columns], values[k]);
    }
  }
  std::vector<double> spread;
  for (size_t c = 0; c < columns; ++c) spread.push_back(double{high[c]} - double{low[c]});
  return spread;
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
    const std::vector<double> spread =
        spreads(set, columns[static_cast<size_t>(found - inputs.begin())], found->sample);
    const double least = min_steps * qparams[0].scale;
    const auto narrow = [&](double each) { return each > 0 && each < least; };
    const auto count = std::ranges::count_if(spread, narrow);
    if (count == 0) continue;
    console::print(
        "input '{}': {} of {} columns vary by less than 2 steps of its quantizer ({:.3g}), "
        "first column {}: give columns similar ranges before the model, or its input more "
        "bits\n",
        printable(input.label), count, spread.size(), qparams[0].scale,
        std::ranges::find_if(spread, narrow) - spread.begin());
  }
}

}  // namespace qtape::tool
