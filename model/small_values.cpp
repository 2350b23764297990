// Learning rates of parameters with small values.
#include <algorithm>
#include <cmath>
#include <set>

#include "qtape/engine/quantizers.h"
#include "qtape/model/recipe.h"
#include "qtape/ops/quantizer_ops.h"

namespace qtape {
namespace {

// Values below these take smaller steps.
constexpr double small_weight = 0.03;
constexpr double small_scale = 0.01;

/// Returns the names of trained zero points.
std::set<std::string> zero_points(const Graph& graph) {
  std::set<std::string> names;
  for (const NodeId id : quantizers(graph)) {
    visit_quantizer(graph[id].op, [&](const auto& op) {
      size_t next = 1;
      for (const QuantizerOperand& each : op.operands()) {
        const NodeId operand = graph[id].operands[next++];
        if (each.trained && each.name == "zero_point") names.insert(graph[operand].label);
      }
    });
  }
  return names;
}

double rms(const ParameterEntry& entry) {
  return dispatch_compute(entry.type.dtype, [&]<class T>() {
    double sum = 0;
    for (const T each : entry.values<T>()) sum += double{each} * double{each};
    return std::sqrt(sum / static_cast<double>(std::max<int64_t>(1, entry.type.elements())));
  });
}

std::string stem(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

std::map<std::string, double> rates_of_small_values(const Model& model) {
  const Graph& graph = model.graph();
  std::set<std::string> scales;
  for (const NodeId id : quantizers(graph)) {
    for (const NodeId scale : trained_scales(graph, id)) scales.insert(graph[scale].label);
  }
  const std::set<std::string> excluded = zero_points(graph);
  std::map<std::string, double> rates;
  for (const ParameterEntry& each : model.parameters().entries()) {
    const bool scale = scales.contains(each.name);
    const bool counts = scale || each.type.shape.rank() >= 2;
    if (!each.trainable() || !counts || excluded.contains(each.name)) continue;
    const double factor = rms(each) / (scale ? small_scale : small_weight);
    if (factor > 0 && factor < 1) rates[each.name] = factor;
  }
  for (const ParameterEntry& each : model.parameters().entries()) {
    if (!each.trainable() || !each.name.ends_with(".bias")) continue;
    const auto weight = rates.find(stem(each.name) + ".weight");
    if (weight != rates.end()) rates[each.name] = weight->second;
  }
  return rates;
}

}  // namespace qtape
