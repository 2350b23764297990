#include "qtape/model/passes/norm_folds.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"

namespace qtape {
namespace {

constexpr const char* rebuild =
    "place the norm directly after a convolution or a matrix product, and train it there";
constexpr const char* fold_later = "fold it after training: qtape fold, fold_batch_norm";

/// Returns the weights operand of products into which norms can be folded: those with an
/// integer form, and transposed convolutions.
std::optional<size_t> scaled_operand(const Op& op) {
  if (std::holds_alternative<ConvTranspose2d>(op)) return 1;
  return weights_operand(op);
}

WeightLayout layout_of(const Op& op, const Shape& shape) {
  if (!std::holds_alternative<ConvTranspose2d>(op)) return weight_layout(op, shape);
  return {.outputs = shape[0],
          .terms = shape.elements() / std::max<int64_t>(1, shape[0]),
          .axis = 0,
          .rows = true};
}

bool changes_shape_alone(const Op& op) { return is_any<Reshape, Flatten>(op); }

/// True for quantized weights that are symmetric, with one scale or one for each output.
bool has_foldable_codes(const Graph& graph, const NormFold& fold) {
  const Node& weight = graph[fold.weight];
  const Granularity granularity = granularity_of(weight.op);
  const bool along_outputs =
      granularity.axis && !granularity.group_size &&
      resolve_axis(*granularity.axis, weight.type.shape) == fold.layout.axis;
  const bool one_scale = channel_map(graph, fold.weight).channels == 1;
  return grid_of(weight.op).scheme == Scheme::Symmetric && (along_outputs || one_scale);
}

class Finder {
 public:
  explicit Finder(const Graph& graph)
      : graph_(graph),
        constant_(constant_nodes(graph)),
        quantized_(constant_.size()),
        readers_(constant_.size()) {
    for (const NodeId id : ids(graph)) {
      const Node& node = graph[id];
      bool quantized = is_quantizer(node.op);
      for (NodeId x : node.operands) {
        ++readers_[at(x)];
        quantized = quantized || quantized_[at(x)];
      }
      quantized_[at(id)] = quantized;
    }
    for (NodeId id : graph.outputs()) ++readers_[at(id)];
  }

  NormFold look_at(NodeId norm) const {
    NormFold fold{.norm = norm};
    find_product(fold);
    if (fold.has_product()) find_hindrance(fold);
    return fold;
  }

 private:
  bool known(NodeId id) const { return constant_[at(id)]; }

  static void refuse(NormFold& fold, std::string reason, const char* remedy) {
    fold.reason = std::move(reason);
    fold.remedy = remedy;
  }

  /// Sets the product, or the reason why there is none.
  void find_product(NormFold& fold) const {
    const std::vector<NodeId>& operands = graph_[fold.norm].operands;
    if (!std::all_of(operands.begin() + 1, operands.end(),
                     [&](NodeId x) { return known(x); })) {
      return refuse(fold, "its statistics or parameters depend on an input", rebuild);
    }
    const NodeId x = past_views(fold);
    if (!fold.reason.empty()) return;
    const Node& product = graph_[x];
    const std::optional<size_t> operand = scaled_operand(product.op);
    if (!operand || known(x)) {
      return refuse(fold, fmt::format("{} before it is not a product with weights", name(x)),
                    rebuild);
    }
    const NodeId weight = product.operands[*operand];
    if (!known(weight)) {
      return refuse(fold, fmt::format("the weights of {} depend on an input", name(x)),
                    rebuild);
    }
    const Shape& shape = graph_[weight].type.shape;
    fold.layout = layout_of(product.op, shape);
    if (fold.layout.outputs * fold.layout.terms != shape.elements() ||
        fold.layout.outputs != graph_[fold.norm].type.shape[-1]) {
      return refuse(
          fold, fmt::format("the outputs of {} do not match the channels of the norm", name(x)),
          rebuild);
    }
    fold.product = x;
    fold.weight = weight;
    fold.quantized = quantized_[at(weight)];
  }

  /// Returns the node that precedes shape changes that keep the channels and at most one sum
  /// with a bias, which are recorded. Records the reason if there is another node between.
  NodeId past_views(NormFold& fold) const {
    const int64_t channels = graph_[fold.norm].type.shape[-1];
    NodeId x = graph_[fold.norm].operands[0];
    for (;; x = graph_[x].operands[0]) {
      const Node& node = graph_[x];
      const bool sum = adds_bias(node.op) && fold.bias.index < 0;
      if (!sum && !changes_shape_alone(node.op)) return x;
      if (sum) take_bias(fold, node.operands[1]);
      if (sum && !known(fold.bias)) {
        refuse(fold, fmt::format("the bias of {} depends on an input", name(x)), rebuild);
        return x;
      }
      fold.between.push_back(x);
      const Shape& before = graph_[node.operands[0]].type.shape;
      if (before.rank() == 0 || before[-1] != channels) {
        refuse(
            fold,
            fmt::format("{} before it does not preserve the channels of its operand", name(x)),
            rebuild);
        return x;
      }
    }
  }

  void take_bias(NormFold& fold, NodeId bias) const {
    fold.rounded = std::holds_alternative<FakeQuantizeBias>(graph_[bias].op);
    fold.bias = fold.rounded ? graph_[bias].operands[0] : bias;
  }

  /// True for weights with fixed scales, which folding multiplies while the codes stay.
  bool keeps_codes(const NormFold& fold) const {
    const auto* quantizer = std::get_if<FakeQuantize>(&graph_[fold.weight].op);
    return quantizer != nullptr && std::holds_alternative<Fixed>(quantizer->scale_mode) &&
           has_foldable_codes(graph_, fold);
  }

  /// Sets the reason against folding before training, if there is one.
  void find_hindrance(NormFold& fold) const {
    if ((fold.quantized || fold.rounded) && !keeps_codes(fold)) {
      return refuse(fold,
                    fmt::format("the weights of {} are already quantized", name(fold.product)),
                    fold_later);
    }
    std::vector<NodeId> alone = fold.between;
    alone.push_back(fold.product);
    alone.push_back(fold.weight);
    if (fold.bias.index >= 0) alone.push_back(fold.bias);
    for (NodeId id : alone) {
      // The grid of the bias is that of the weights.
      const int64_t own = id == fold.weight && fold.rounded ? 2 : 1;
      if (readers_[at(id)] <= own) continue;
      return refuse(fold, fmt::format("{} is also used elsewhere", name(id)), fold_later);
    }
  }

  /// Returns `Relu %7 'relu'`, without operands.
  std::string name(NodeId id) const {
    const std::string text = graph_.describe(id);
    return text.substr(0, text.find(" ("));
  }

  const Graph& graph_;
  std::vector<bool> constant_;   // depends on no input
  std::vector<bool> quantized_;  // computed through a quantizer
  std::vector<int64_t> readers_;
};

}  // namespace

std::vector<NormFold> norm_folds(const Graph& graph) {
  const Finder finder(graph);
  std::vector<NormFold> found;
  for (const NodeId id : ids(graph)) {
    if (!std::holds_alternative<BatchNorm>(graph[id].op)) continue;
    found.push_back(finder.look_at(id));
  }
  return found;
}

void check_weights(const Graph& graph, const NormFold& fold) {
  const Node& weight = graph[fold.weight];
  const auto refuse = [&](std::string_view expected) {
    fail<GraphError>("{}: {} to fold it into {}, got {}", graph.describe(fold.norm), expected,
                     graph.describe(fold.product), graph.describe(fold.weight));
  };
  if (!fold.quantized) return;
  if (!is_quantizer(weight.op)) refuse("weights must be quantized last or not at all");
  if (!has_foldable_codes(graph, fold)) {
    refuse("weights must be symmetric with one scale or one for each output");
  }
}

}  // namespace qtape
