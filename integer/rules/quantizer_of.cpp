#include "qtape/integer/rules/quantizer_of.h"

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"

namespace qtape {

std::optional<NodeId> preceding_quantizer(const Graph& graph, NodeId id) {
  while (is_view(graph[id].op) || keeps_codes(graph[id].op)) id = graph[id].operands[0];
  return is_quantizer(graph[id].op) ? std::optional(id) : std::nullopt;
}

namespace {

/// True if a quantizer has one scale for all values, whatever the size of the batch.
bool has_one_scale(const Graph& graph, NodeId quantizer) {
  const Granularity granularity = granularity_of(graph[quantizer].op);
  const Shape& shape = graph[quantizer].type.shape;
  const bool by_sample =
      graph.batch() && granularity.axis && resolve_axis(*granularity.axis, shape) == 0;
  return !by_sample && channel_map(graph, quantizer).channels == 1;
}

}  // namespace

bool accumulators_have_grid(const Graph& graph, const Op& product, NodeId x, NodeId w) {
  const std::optional<NodeId> quantizer = preceding_quantizer(graph, x);
  if (!quantizer || !has_one_scale(graph, *quantizer)) return false;
  const Shape& shape = graph[w].type.shape;
  if (!is_quantizer(graph[w].op) || !weights_operand(product) || shape.rank() < 2) return false;
  const WeightLayout layout = weight_layout(product, shape);
  if (layout.outputs * layout.terms != shape.elements()) return false;
  const Granularity granularity = granularity_of(graph[w].op);
  if (channel_map(graph, w).channels == 1) return true;
  return granularity.axis && !granularity.group_size &&
         resolve_axis(*granularity.axis, shape) == layout.axis;
}

NodeId add_rounded_bias(Graph& graph, NodeId product, NodeId bias, const std::string& label) {
  const Node& node = graph[product];
  if (node.operands.size() < 2) return bias;
  const NodeId x = node.operands[0];
  const NodeId w = node.operands[1];
  if (!accumulators_have_grid(graph, node.op, x, w)) return bias;
  return graph.add(FakeQuantizeBias{}, {bias, *preceding_quantizer(graph, x), w}, label);
}

}  // namespace qtape
