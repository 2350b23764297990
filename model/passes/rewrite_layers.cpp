#include "qtape/model/passes/rewrite_layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "qtape/core/float_environment.h"
#include "qtape/deploy/checks.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/model/passes/channel_products.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/fold_batch_norm.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/passes/score_mask.h"
#include "qtape/model/passes/sub_pixel.h"
#include "qtape/model/passes/values_without_codes.h"

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

/// By node: true for inputs and for nodes that an output needs.
std::vector<bool> read_nodes(const Graph& graph) {
  const std::vector<NodeId> outputs(graph.outputs().begin(), graph.outputs().end());
  std::vector<bool> read = needed_for(graph, outputs);
  for (const NodeId id : ids(graph)) {
    if (std::holds_alternative<Input>(graph[id].op)) read[at(id)] = true;
  }
  return read;
}

/// Returns `graph` without nodes that no output needs, except inputs, with its values.
SavedModel without_unread(const Graph& graph, const Parameters& parameters) {
  const std::vector<bool> read = read_nodes(graph);
  Graph result;
  rewrite(graph, result, [&](NodeId id, const std::vector<NodeId>& operands) {
    if (!read[at(id)]) return NodeId{};
    return result.add(graph[id].op, operands, graph[id].label);
  });
  return with_values(std::move(result), parameters);
}

/// Adds x / divisor as a product with the reciprocal.
NodeId add_quotient(Graph& graph, NodeId x, NodeId divisor, const std::string& label) {
  const NodeId reciprocal = graph.add(Pow{.exponent = -1}, {divisor});
  return graph.add(Mul{}, {x, reciprocal}, label);
}

/// Adds a border of a number as one of 0 around the differences to it: codes have an exact 0,
/// but may have no code for the number.
NodeId add_border(Graph& graph, NodeId x, Pad pad, const std::string& label) {
  const double value = std::exchange(pad.value, 0.0);
  const NodeId shifted = graph.add(Affine{.offset = -value}, {x});
  return graph.add(Affine{.offset = value}, {graph.add(pad, {shifted})}, label);
}

/// Adds scores with elements that a mask leaves out replaced by others along the axis, which do
/// not change the maximum, and its biases.
NodeId add_counted(Graph& graph, NodeId scores, const ScoreMask& mask,
                   const std::string& name) {
  const std::span<const int64_t> shape = graph[scores].type.shape.extents();
  std::vector<int64_t> extents(shape.begin(), shape.end());
  extents[0] = -1;
  std::vector<int64_t> joined(extents.begin(), extents.end() - std::ssize(mask.extents));
  joined.push_back(std::ssize(mask.counts));
  const Gather gather{.axis = -1, .indices = mask.counted_places()};
  const NodeId places = graph.add(gather, {graph.add(Reshape{.shape = joined}, {scores})});
  const NodeId counted = graph.add(Reshape{.shape = extents}, {places});
  if (mask.biases.empty()) return counted;
  const Constant biases{.value = mask.counted_biases()};
  return graph.add(Add{}, {counted, graph.add(biases, {}, name + ".biases")});
}

/// Max, differences, exponentials and their sum for a Softmax of x along `axis`.
struct SoftmaxParts {
  NodeId shifted;      ///< x - max(x)
  NodeId exponential;  ///< exp(shifted), 0 where a mask leaves out elements
  NodeId sum;          ///< sum(exponential), at least 1; its extent along the axis is 1

  SoftmaxParts(Graph& graph, NodeId x, int axis, const std::string& name,
               const std::optional<ScoreMask>& mask) {
    const std::vector<int> axes = {axis};
    if (mask) x = add_counted(graph, x, *mask, name);
    const NodeId largest = graph.add(Max{.axes = axes, .keep_dims = true}, {x});
    shifted = graph.add(Sub{}, {x, largest}, name + ".shifted");
    exponential = graph.add(Exp{}, {shifted}, name + ".exp");
    if (mask) {
      const NodeId factors = graph.add(Constant{.value = mask->factors()}, {}, name + ".mask");
      exponential = graph.add(Mul{}, {exponential, factors}, name + ".masked");
    }
    const NodeId total =
        graph.add(Sum{.axes = axes, .keep_dims = true}, {exponential}, name + ".sum");
    // Rounded terms may sum to less than the 1 of the largest element. A function precedes the
    // limit, so that the sum is quantized before it and the limit is part of the table.
    const Shape& shape = graph[x].type.shape;
    const auto extent = static_cast<double>(shape[resolve_axis(axis, shape)]);
    sum = graph.add(Clamp{.low = 1, .high = extent}, {graph.add(Affine{}, {total})});
  }
};

/// Copies a graph with quotients, borders, Softmax and LogSoftmax as layers that have integers.
class Tables {
 public:
  Tables(const Graph& graph, const Parameters& parameters)
      : graph_(graph),
        parameters_(parameters),
        constant_(constant_nodes(graph)),
        replaceable_(replaceable_nodes(graph)),
        answered_(needed_for(graph, graph.answers())),
        last_(last_softmaxes(graph)) {}

  /// Divisions by values that depend on inputs become products with the reciprocal, which is a
  /// table of codes; borders of a number, those of 0 around differences; Softmax and LogSoftmax
  /// nodes, except last ones, exponentials of differences, their sum and a table of it. Appends
  /// their labels.
  Graph run(std::vector<std::string>& labels) {
    rewrite(graph_, result_, [&](NodeId id, const std::vector<NodeId>& operands) {
      const Node& node = graph_[id];
      const bool last = std::ranges::find(last_, id) != last_.end();
      std::optional<NodeId> made;
      if (answered_[at(id)] && replaceable_[at(id)] && !last) made = rewritten(id, operands);
      if (!made) return result_.add(node.op, operands, node.label);
      labels.push_back(name_near(graph_, id));
      return *made;
    });
    return std::move(result_);
  }

 private:
  std::optional<NodeId> rewritten(NodeId id, const std::vector<NodeId>& operands) {
    const Node& node = graph_[id];
    if (std::holds_alternative<Div>(node.op) && !constant_[at(node.operands[1])]) {
      return add_quotient(result_, operands[0], operands[1], node.label);
    }
    if (const auto* pad = std::get_if<Pad>(&node.op)) {
      if (pad->value == 0 || has_far_border(*pad) || is_below_maxima(graph_, id))
        return std::nullopt;
      return add_border(result_, operands[0], *pad, node.label);
    }
    if (const auto* softmax = std::get_if<Softmax>(&node.op)) {
      const auto mask = score_mask(graph_, parameters_, id);
      if (mask) return masked(id, operands[0], *mask);
      const SoftmaxParts parts = parts_of(id, operands[0], softmax->axis, std::nullopt);
      return add_quotient(result_, parts.exponential, parts.sum, node.label);
    }
    if (const auto* softmax = std::get_if<LogSoftmax>(&node.op)) {
      // Its masked elements are -Inf, which has no code.
      const SoftmaxParts parts = parts_of(id, operands[0], softmax->axis, std::nullopt);
      return result_.add(Sub{}, {parts.shifted, result_.add(Log{}, {parts.sum})}, node.label);
    }
    return std::nullopt;
  }

  /// The Softmax of scores with a mask: the steps between them come first, and the views
  /// behind.
  NodeId masked(NodeId id, NodeId x, const ScoreMask& mask) {
    for (size_t i = 0; i < mask.views.size(); ++i) x = result_[x].operands[0];
    std::vector<NodeId> steps;  // from the Softmax
    for (size_t i = mask.steps.size(); i-- > 0;) {
      steps.push_back(x);
      x = result_[x].operands[mask.steps[i].operand];
    }
    for (const ScoreStep& step : mask.steps) {
      const NodeId copied = steps.back();
      steps.pop_back();
      if (!step.is_kept) continue;
      std::vector<NodeId> operands = result_[copied].operands;
      operands[step.operand] = x;
      x = result_.add(graph_[step.node].op, operands);
    }
    const SoftmaxParts parts = parts_of(id, x, mask.axis, mask);
    NodeId y = add_quotient(result_, parts.exponential, parts.sum, graph_[id].label);
    for (const NodeId view : mask.views) y = result_.add(graph_[view].op, {y});
    return y;
  }

  SoftmaxParts parts_of(NodeId id, NodeId x, int axis, const std::optional<ScoreMask>& mask) {
    const auto taken = [&](const std::string& label) {
      return std::ranges::any_of(
          std::array{".biases", ".shifted", ".exp", ".mask", ".masked", ".sum"},
          [&](const char* part) {
            return graph_.find(label + part) || result_.find(label + part);
          });
    };
    return {result_, x, axis, unused_label(label_near(graph_, id), taken), mask};
  }

  const Graph& graph_;
  const Parameters& parameters_;
  std::vector<bool> constant_;
  std::vector<bool> replaceable_;
  std::vector<bool> answered_;
  std::vector<NodeId> last_;
  Graph result_;
};

/// Returns `graph` with divisions by leaves without 0 as products with the reciprocal, a
/// constant with one scale; appends their labels.
Graph without_constant_quotients(const Graph& graph, const Parameters& parameters,
                                 std::vector<std::string>& labels) {
  const std::vector<bool> constant = constant_nodes(graph);
  const std::vector<bool> answered = needed_for(graph, graph.answers());
  const std::vector<bool> replaceable = replaceable_nodes(graph);
  const auto divides = [&](NodeId id) {
    const bool leaf =
        constant[at(id)] && graph[id].operands.empty() && graph[id].type.dtype == DType::F32;
    return leaf && std::ranges::all_of(leaf_values(graph, parameters, id),
                                       [](float each) { return std::isfinite(1 / each); });
  };
  Graph result;
  rewrite(graph, result, [&](NodeId id, const std::vector<NodeId>& operands) {
    const Node& node = graph[id];
    const bool quotient = std::holds_alternative<Div>(node.op) && answered[at(id)] &&
                          replaceable[at(id)] && !constant[at(node.operands[0])] &&
                          divides(node.operands[1]);
    if (!quotient) return result.add(node.op, operands, node.label);
    labels.push_back(name_near(graph, id));
    return add_quotient(result, operands[0], operands[1], node.label);
  });
  return result;
}

void append(std::vector<std::string>& names, const std::vector<std::string>& more) {
  names.insert(names.end(), more.begin(), more.end());
}

}  // namespace

RewrittenLayers rewrite_layers(const Graph& graph, const Parameters& parameters) {
  const FloatEnvironment floats;
  // Nodes without readers would count as readers of what can be rewritten.
  if (const std::vector<bool> read = read_nodes(graph); std::ranges::count(read, false) > 0) {
    const SavedModel clean = without_unread(graph, parameters);
    return rewrite_layers(clean.graph, clean.parameters);
  }
  RewrittenLayers result{.refused = values_without_codes(graph, parameters)};
  const auto now = [&]() -> const Graph& { return result.model ? result.model->graph : graph; };
  const auto values = [&]() -> const Parameters& {
    return result.model ? result.model->parameters : parameters;
  };
  Graph tables = Tables(graph, parameters).run(result.rewritten);
  if (!result.rewritten.empty()) result.model = with_values(std::move(tables), values());
  ChannelProducts products = channel_products(now(), values());
  if (products.model) result.model = std::move(products.model);
  FoldedNorms norms = fold_norms(now(), values());
  for (const NodeId id : norms.norms) {
    const std::string& gamma = now()[now()[id].operands[1]].label;
    if (!products.gammas.contains(gamma)) result.folded.push_back(name_near(now(), id));
  }
  if (norms.model) result.model = std::move(norms.model);
  append(result.rewritten, products.chains);
  // Constants of channels have become products.
  const size_t before = result.rewritten.size();
  Graph quotients = without_constant_quotients(now(), values(), result.rewritten);
  if (result.rewritten.size() > before) {
    result.model = with_values(std::move(quotients), values());
  }
  SubPixelGraph phases = sub_pixel_convolutions(now());
  if (!phases.labels.empty()) result.model = with_values(std::move(phases.graph), values());
  append(result.rewritten, phases.labels);
  if (result.model) {
    result.model = without_unread(result.model->graph, result.model->parameters);
  }
  return result;
}

}  // namespace qtape
