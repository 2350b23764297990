#include "qtape/model/passes/rewrite_layers.h"

#include <algorithm>
#include <utility>

#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/model/passes/channel_products.h"
#include "qtape/model/passes/fold_batch_norm.h"
#include "qtape/model/passes/sub_pixel.h"

namespace qtape {
namespace {

/// Returns `graph`, which has the leaves of a model, with their values.
SavedModel with_values(Graph graph, const Parameters& parameters) {
  Parameters values(graph, 0);
  for (const ParameterEntry& each : values.entries()) {
    values.set(each.name, parameters.get(each.name));
  }
  return {std::move(graph), std::move(values), {}};
}

/// Returns `graph` without nodes that no output needs, except inputs, with its values.
SavedModel without_unread(const Graph& graph, const Parameters& parameters) {
  const std::vector<NodeId> outputs(graph.outputs().begin(), graph.outputs().end());
  const std::vector<bool> needed = needed_for(graph, outputs);
  Graph result;
  rewrite(graph, result, [&](NodeId id, const std::vector<NodeId>& operands) {
    const Node& node = graph[id];
    if (!needed[at(id)] && !std::holds_alternative<Input>(node.op)) return NodeId{};
    return result.add(node.op, operands, node.label);
  });
  return with_values(std::move(result), parameters);
}

/// Returns `graph` with divisions by values that depend on inputs as products with the
/// reciprocal, which is a table of codes; appends their labels.
Graph without_quotients(const Graph& graph, std::vector<std::string>& labels) {
  const std::vector<bool> constant = constant_nodes(graph);
  const std::vector<bool> answered = needed_for(graph, graph.answers());
  Graph result;
  rewrite(graph, result, [&](NodeId id, const std::vector<NodeId>& operands) {
    const Node& node = graph[id];
    const bool quotient = std::holds_alternative<Div>(node.op) && answered[at(id)] &&
                          !constant[at(node.operands[1])];
    if (!quotient) return result.add(node.op, operands, node.label);
    labels.push_back(graph.name(id));
    const NodeId reciprocal = result.add(Pow{.exponent = -1}, {operands[1]});
    return result.add(Mul{}, {operands[0], reciprocal}, node.label);
  });
  return result;
}

void append(std::vector<std::string>& names, const std::vector<std::string>& more) {
  names.insert(names.end(), more.begin(), more.end());
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

RewrittenLayers rewrite_layers(const Graph& graph, const Parameters& parameters) {
  RewrittenLayers result;
  const auto now = [&]() -> const Graph& { return result.model ? result.model->graph : graph; };
  const auto values = [&]() -> const Parameters& {
    return result.model ? result.model->parameters : parameters;
  };
  const bool plain = quantizers(graph).empty();
  if (plain) {
    Graph products = without_quotients(graph, result.rewritten);
    if (!result.rewritten.empty()) result.model = with_values(std::move(products), values());
  }
  ChannelProducts products = channel_products(now(), values());
  if (products.model) result.model = std::move(products.model);
  FoldedNorms norms = fold_norms(now(), values());
  if (norms.model) result.model = std::move(norms.model);
  for (std::string& label : norms.labels) {
    if (!contains(products.chains, label)) result.folded.push_back(std::move(label));
  }
  append(result.rewritten, products.chains);
  if (plain) {
    SubPixelGraph phases = sub_pixel_convolutions(now());
    if (!phases.labels.empty()) result.model = with_values(std::move(phases.graph), values());
    append(result.rewritten, phases.labels);
  }
  if (result.model) {
    result.model = without_unread(result.model->graph, result.model->parameters);
  }
  return result;
}

}  // namespace qtape
