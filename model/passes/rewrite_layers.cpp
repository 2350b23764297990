#include "qtape/model/passes/rewrite_layers.h"

#include <algorithm>
#include <utility>

#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/model/passes/channel_products.h"
#include "qtape/model/passes/fold_batch_norm.h"
#include "qtape/model/passes/last_softmax.h"
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

/// Returns `graph` with divisions by values that depend on inputs, or by constants, as products
/// with the reciprocal, which is a table of codes or a constant; appends their labels.
Graph without_quotients(const Graph& graph, bool constants, std::vector<std::string>& labels) {
  const std::vector<bool> constant = constant_nodes(graph);
  const std::vector<bool> answered = needed_for(graph, graph.answers());
  Graph result;
  rewrite(graph, result, [&](NodeId id, const std::vector<NodeId>& operands) {
    const Node& node = graph[id];
    const bool quotient = std::holds_alternative<Div>(node.op) && answered[at(id)] &&
                          constant[at(node.operands[1])] == constants &&
                          !(constants && constant[at(node.operands[0])]);
    if (!quotient) return result.add(node.op, operands, node.label);
    labels.push_back(graph.name(id));
    const NodeId reciprocal = result.add(Pow{.exponent = -1}, {operands[1]});
    return result.add(Mul{}, {operands[0], reciprocal}, node.label);
  });
  return result;
}

/// Adds the sum of exponentials of a Softmax: along an axis of operand x, less its maximum.
struct SoftmaxParts {
  NodeId shifted;      ///< x - max(x)
  NodeId exponential;  ///< exp(shifted)
  NodeId sum;          ///< sum(exponential), within 1 and the extent; its own extent is 1

  SoftmaxParts(Graph& graph, NodeId x, int axis, const std::string& name) {
    const std::vector<int> axes = {axis};
    const NodeId largest = graph.add(Max{.axes = axes, .keep_dims = true}, {x});
    shifted = graph.add(Sub{}, {x, largest}, name + ".shifted");
    exponential = graph.add(Exp{}, {shifted}, name + ".exp");
    const NodeId total = graph.add(Sum{.axes = axes, .keep_dims = true}, {exponential});
    const Shape& shape = graph[x].type.shape;
    const auto extent = static_cast<double>(shape[resolve_axis(axis, shape)]);
    // Rounded terms may sum to less than the 1 of the largest element.
    sum = graph.add(Clamp{.low = 1, .high = extent}, {total}, name + ".sum");
  }
};

/// Returns `graph` with Softmax and LogSoftmax nodes, except last ones, as exponentials of
/// differences, their sum and a table of it; appends their labels.
Graph without_softmaxes(const Graph& graph, std::vector<std::string>& labels) {
  const std::vector<bool> answered = needed_for(graph, graph.answers());
  const std::vector<NodeId> last = last_softmaxes(graph);
  Graph result;
  const auto taken = [&](const std::string& label) {
    return graph.find(label + ".exp") || result.find(label + ".exp");
  };
  rewrite(graph, result, [&](NodeId id, const std::vector<NodeId>& operands) {
    const Node& node = graph[id];
    const auto* softmax = std::get_if<Softmax>(&node.op);
    const auto* logarithm = std::get_if<LogSoftmax>(&node.op);
    const bool stays = (softmax == nullptr && logarithm == nullptr) || !answered[at(id)] ||
                       std::ranges::find(last, id) != last.end();
    if (stays) return result.add(node.op, operands, node.label);
    labels.push_back(graph.name(id));
    const SoftmaxParts parts(result, operands[0],
                             softmax != nullptr ? softmax->axis : logarithm->axis,
                             unused_label(label_near(graph, id), taken));
    if (logarithm != nullptr) {
      const NodeId log = result.add(Log{}, {parts.sum});
      return result.add(Sub{}, {parts.shifted, log}, node.label);
    }
    const NodeId reciprocal = result.add(Pow{.exponent = -1}, {parts.sum});
    return result.add(Mul{}, {parts.exponential, reciprocal}, node.label);
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
    Graph products =
        without_softmaxes(without_quotients(graph, false, result.rewritten), result.rewritten);
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
    // Constants of channels have become products.
    const size_t before = result.rewritten.size();
    Graph quotients = without_quotients(now(), true, result.rewritten);
    if (result.rewritten.size() > before) {
      result.model = with_values(std::move(quotients), values());
    }
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
