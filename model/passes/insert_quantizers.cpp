#include "qtape/model/passes/insert_quantizers.h"

#include <map>
#include <set>
#include <utility>

#include "qtape/core/pattern.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/passes/cell_states.h"
#include "qtape/model/passes/completion.h"
#include "qtape/model/passes/weighted_layers.h"

namespace qtape {
namespace {

constexpr int max_bits_full = 4;

template <class T>
constexpr bool is_quantizer_op = Quantizer<T>;

/// Returns `quantizer` for a matrix whose output channels are its last axis. Throws GraphError
/// for an axis that the matrix does not have.
Op along_columns(Op quantizer, const Shape& shape) {
  std::visit(
      [&](auto& op) {
        if constexpr (is_quantizer_op<std::decay_t<decltype(op)>>) {
          if (op.axis) op.axis = 1 - resolve_axis(*op.axis, shape);
        }
      },
      quantizer);
  return quantizer;
}

/// Returns `quantizer` without codes that have no negative.
Op narrowed(Op quantizer) {
  std::visit(
      [&](auto& op) {
        if constexpr (is_quantizer_op<std::decay_t<decltype(op)>>) {
          if (op.range == CodeRange::Full) op.range = CodeRange::Narrow;
        }
      },
      quantizer);
  return quantizer;
}

/// True if a BatchNorm follows the product, with or without a bias between them.
bool norm_follows(const Graph& graph, NodeId product) {
  NodeId last = product;
  for (int32_t i = product.index + 1; i < graph.size(); ++i) {
    const Node& node = graph[NodeId{i}];
    if (node.operands.empty() || node.operands[0] != last) continue;
    if (std::holds_alternative<BatchNorm>(node.op)) return true;
    if (adds_bias(node.op)) last = NodeId{i};
  }
  return false;
}

/// True if `op` returns a selection of its operand's elements, which it can do on codes as
/// well.
bool picks(const Op& op) { return keeps_codes(op) && !is_pointwise(op); }

class Inserter {
 public:
  Inserter(const Graph& graph, const InsertOptions& options)
      : graph_(graph), options_(options), constant_(constant_nodes(graph)), copies_(graph) {
    for (WeightedLayer& each : weighted_layers(graph)) {
      if (matches(options.pattern, each.label)) layers_.emplace(each.product, std::move(each));
    }
  }

  Graph run() {
    for (const auto& [product, layer] : layers_) note_early(layer);
    rewrite(graph_, result_, [&](NodeId id, const std::vector<NodeId>& operands) {
      return copies_[id] = copy(id, operands);
    });
    // Completion quantizes networks without products.
    const bool none = options_.complete && options_.input && options_.pattern == "*";
    check(inserted_ > 0 || none, "no product has unquantized weights that match '{}'",
          options_.pattern);
    return std::move(result_);
  }

 private:
  NodeId copy(NodeId id, std::vector<NodeId> operands) {
    const Node& node = graph_[id];
    if (const auto layer = layers_.find(id); layer != layers_.end()) {
      const std::vector<NodeId> before = operands;
      quantize(layer->second, operands);
      if (operands != before) gained_.insert(id);
    }
    if (std::holds_alternative<AddBias>(node.op) && options_.bias_on_grid) {
      put_on_grid(node, operands);
    }
    if (std::holds_alternative<BatchNormCorrection>(node.op)) follow_bias(node, operands);
    const NodeId made = result_.add(node.op, operands, node.label);
    const auto early = early_.find(id);
    if (early == early_.end()) return made;
    ++inserted_;
    return add_quantizer(result_, made, *options_.input, free_label(early->second));
  }

  /// A pooling before a product works on codes: the product's quantizer goes before it.
  void note_early(const WeightedLayer& layer) {
    if (!options_.input) return;
    NodeId origin = graph_[layer.product].operands[0];
    bool keeps = false;
    while (is_view(graph_[origin].op) || picks(graph_[origin].op)) {
      keeps = keeps || picks(graph_[origin].op);
      origin = graph_[origin].operands[0];
    }
    if (keeps && !is_quantizer(graph_[origin].op)) {
      early_.emplace(origin, layer.stem() + ".input");
    }
  }

  void quantize(const WeightedLayer& layer, std::vector<NodeId>& operands) {
    const Node& node = graph_[layer.product];
    if (options_.weight) {
      const Shape& shape = graph_[layer.weight].type.shape;
      const bool columns = shape.rank() == 2 && !weight_layout(node.op, shape).rows;
      Op op = columns ? along_columns(*options_.weight, shape) : *options_.weight;
      if (options_.narrow_before_norms && norm_follows(graph_, layer.product))
        op = narrowed(op);
      operands[*weights_operand(node.op)] = quantized(layer.weight, columns, op, layer.label);
    }
    if (options_.input && !preceding_quantizer(result_, operands[0])) {
      operands[0] =
          quantized(node.operands[0], false, *options_.input, layer.stem() + ".input");
    }
  }

  void put_on_grid(const Node& node, std::vector<NodeId>& operands) {
    const NodeId bias = node.operands[1];
    if (!gained_.contains(node.operands[0])) return;
    if (!constant_[at(bias)]) return;
    const Op& op = graph_[bias].op;
    if (is_quantizer(op) || std::holds_alternative<FakeQuantizeBias>(op)) return;
    operands[1] = add_rounded_bias(result_, operands[0], operands[1],
                                   free_label(label_near(graph_, bias)) + ".quantized");
  }

  /// A correction must read the bias that is added: the rounded one, if rounding was inserted.
  void follow_bias(const Node& node, std::vector<NodeId>& operands) const {
    const Node& sum = graph_[node.operands[0]];
    const bool same = adds_bias(sum.op) && sum.operands[1] == node.operands[4];
    const Node& copy = result_[operands[0]];
    if (same && adds_bias(copy.op)) operands[4] = copy.operands[1];
  }

  /// Returns `label`, with a number appended if a quantizer of that name exists.
  std::string free_label(const std::string& label) const {
    const auto taken = [&](const std::string& each) {
      return result_.find(each + ".quantized").has_value();
    };
    return unused_label(label, taken, "");
  }

  /// Returns the quantizer after the copy of x; adds one if there is none yet.
  NodeId quantized(NodeId x, bool columns, const Op& quantizer, const std::string& label) {
    const auto found = quantized_.find({x, columns});
    if (found != quantized_.end()) return found->second;
    ++inserted_;
    return quantized_[{x, columns}] =
               add_quantizer(result_, copies_[x], quantizer, free_label(label));
  }

  const Graph& graph_;
  const InsertOptions& options_;
  std::vector<bool> constant_;
  NodeMap<NodeId> copies_;
  std::map<NodeId, WeightedLayer> layers_;  // by product
  Graph result_;
  std::map<std::pair<NodeId, bool>, NodeId> quantized_;
  std::map<NodeId, std::string> early_;  // labels of quantizers after nodes of graph_
  std::set<NodeId> gained_;              // products of graph_
  int inserted_ = 0;
};

/// Returns the nodes that are averaged by a mean.
std::set<NodeId> averaged_nodes(const Graph& graph) {
  std::set<NodeId> found;
  for (const NodeId id : ids(graph)) {
    if (is_view(graph[id].op) || !is_mean(graph, id)) continue;
    found.insert(graph[id].operands[0]);
  }
  return found;
}

/// Returns a copy of `graph` with `quantizer` after each of `nodes`, or `averaged` if a mean
/// reads the node. Where a constant is a bias, it stays as it is.
Graph quantize_after(const Graph& graph, const std::set<NodeId>& nodes, const Op& quantizer,
                     const Op& averaged) {
  const std::set<NodeId> before_means = averaged_nodes(graph);
  Graph result;
  const auto taken = [&](const std::string& label) {
    return graph.find(label + ".quantized") || result.find(label + ".quantized");
  };
  const std::vector<bool> constant = constant_nodes(graph);
  std::map<NodeId, NodeId> plain;  // copies of quantized constants
  rewrite(graph, result, [&](NodeId id, std::vector<NodeId> operands) {
    const Node& node = graph[id];
    if (const int bias = bias_operand(node.op); bias >= 0) {
      const auto found = plain.find(node.operands[static_cast<size_t>(bias)]);
      if (found != plain.end()) operands[static_cast<size_t>(bias)] = found->second;
    }
    const NodeId copy = result.add(node.op, operands, node.label);
    if (!nodes.contains(id)) return copy;
    if (constant[at(id)]) plain.emplace(id, copy);
    return add_quantizer(result, copy, before_means.contains(id) ? averaged : quantizer,
                         unused_label(label_near(graph, id), taken, ""));
  });
  return result;
}

}  // namespace

Graph insert_quantizers(const Graph& graph, const InsertOptions& options) {
  Graph result = Inserter(graph, options).run();
  if (!options.complete || !options.input) return result;
  if (options.cell) result = quantize_cell_states(result, *options.cell, *options.input);
  return complete_quantizers(result, *options.input);
}

bool is_mean(const Graph& graph, NodeId id) {
  return is_any<GlobalAvgPool, Mean>(graph[origin_of(graph, id)].op);
}

Graph complete_quantizers(const Graph& graph, const Op& quantizer,
                          const std::optional<Op>& averaged) {
  check(is_quantizer(quantizer), "expected a quantizer, got {}", name_of(quantizer));
  Graph result = graph;
  if (result.outputs().empty()) return result;
  // A new quantizer may expose the next refusal, so this repeats until there is none.
  for (std::set<NodeId> nodes = unquantized_in_order(result, quantizer); !nodes.empty();
       nodes = unquantized_nodes(result)) {
    result = quantize_after(result, nodes, quantizer, averaged.value_or(quantizer));
  }
  return result;
}

Graph quantize_answers(const Graph& graph, const Op& quantizer) {
  std::set<NodeId> nodes;
  for (const NodeId id : graph.answers()) {
    if (!preceding_quantizer(graph, id)) nodes.insert(id);
  }
  return quantize_after(graph, nodes, quantizer, quantizer);
}

CodeRange default_weight_codes(int bits) {
  return bits <= max_bits_full ? CodeRange::Full : CodeRange::Narrow;
}

FakeQuantize with_signed_codes(FakeQuantize quantizer) {
  quantizer.range = CodeRange::Full;
  quantizer.scheme = Scheme::Symmetric;
  return quantizer;
}

InsertOptions calibrated_quantizers(int weight_bits, int activation_bits,
                                    std::optional<CodeRange> weight_codes) {
  require<ArgumentError>(weight_codes != CodeRange::Unsigned,
                         "weight codes must be Narrow or Full, got Unsigned");
  return {
      .weight = FakeQuantize{.bits = weight_bits,
                             .axis = 0,
                             .range = weight_codes.value_or(default_weight_codes(weight_bits)),
                             .denominator = Denominator::HalfSpan,
                             .scale_mode = Fixed{}},
      .input = FakeQuantize{.bits = activation_bits,
                            .range = CodeRange::Unsigned,
                            .scheme = Scheme::Affine,
                            .scale_mode = Fixed{}},
      .narrow_before_norms = !weight_codes,
      .complete = true};
}

}  // namespace qtape
