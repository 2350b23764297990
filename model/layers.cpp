#include "qtape/model/layers.h"

#include "qtape/engine/quantizers.h"
#include "qtape/integer/code_flow.h"

namespace qtape {
namespace {

/// The leaves of a batch norm.
struct NormLeaves {
  NodeId gamma;
  NodeId beta;
  NodeId mean;
  NodeId variance;
};

NormLeaves add_norm_leaves(Graph& graph, const TensorType& channels, const std::string& label) {
  const auto parameter = [&](double value, const char* name) {
    const Parameter op{
        .dtype = channels.dtype, .shape = channels.shape, .initializer = init::Fill{value}};
    return graph.add(op, {}, label + name);
  };
  const auto state = [&](double value, const char* name) {
    const State op{.dtype = channels.dtype, .shape = channels.shape, .value = value};
    return graph.add(op, {}, label + name);
  };
  return {.gamma = parameter(1, ".gamma"),
          .beta = parameter(0, ".beta"),
          .mean = state(0, ".running_mean"),
          .variance = state(1, ".running_var")};
}

/// A batch norm that is folded into the layer before it.
class FoldedNorm {
 public:
  FoldedNorm(Graph& graph, const BatchNorm& op, const TensorType& channels,
             const std::string& label)
      : graph_(graph), op_(op), leaves_(add_norm_leaves(graph, channels, label)) {
    factor_ = graph.add(FoldFactor{.eps = op.eps}, {leaves_.gamma, leaves_.variance});
  }

  /// Weights with `axis` as that of the outputs, as they are to be quantized.
  NodeId weight(NodeId w, int axis) {
    const Shape& shape = graph_[w].type.shape;
    std::vector<int64_t> extents(static_cast<size_t>(shape.rank()), 1);
    extents[static_cast<size_t>(axis)] = shape[axis];
    const NodeId r = graph_.add(Reshape{.shape = extents}, {factor_});
    return graph_.add(Mul{}, {w, r});
  }
  /// What is to be rounded and added to the product.
  NodeId bias(const std::string& label) {
    return graph_.add(FoldBias{}, {leaves_.beta, leaves_.mean, factor_}, label);
  }
  /// The result of the layer, v being the product plus `bias`.
  NodeId correct(NodeId v, NodeId bias, const std::string& label) {
    const BatchNormCorrection op{.momentum = op_.momentum, .eps = op_.eps};
    return graph_.add(
        op, {v, leaves_.gamma, leaves_.beta, factor_, bias, leaves_.mean, leaves_.variance},
        label);
  }

 private:
  Graph& graph_;
  BatchNorm op_;
  NormLeaves leaves_;
  NodeId factor_;
};

}  // namespace

NodeId linear(Graph& graph, NodeId x, const LinearOptions& options) {
  const TensorType type = graph[x].type;
  check(type.shape.rank() >= 1, "linear '{}': x needs rank >= 1, got {}", options.label,
        to_string(type));
  check(options.out >= 1, "linear '{}': out must be at least 1, got {}", options.label,
        options.out);
  const Parameter weight{.dtype = type.dtype,
                         .shape = {options.out, type.shape[-1]},
                         .initializer = options.weight_initializer};
  NodeId w = graph.add(weight, {}, options.label + ".weight");
  const TensorType channels{type.dtype, {options.out}};
  std::optional<FoldedNorm> norm;
  NodeId bias;
  if (options.folded_norm) {
    norm.emplace(graph, *options.folded_norm, channels, options.label);
    w = norm->weight(w, 0);
    bias = norm->bias(options.label + ".bias");
  }
  if (options.input_quantizer) {
    x = add_quantizer(graph, x, *options.input_quantizer, options.label + ".input");
  }
  if (options.weight_quantizer) {
    w = add_quantizer(graph, w, *options.weight_quantizer, options.label + ".weight");
  }
  if (!norm && !options.bias) {
    return graph.add(MatMul{.transpose_b = true}, {x, w}, options.label);
  }
  const NodeId product = graph.add(MatMul{.transpose_b = true}, {x, w});
  if (!norm) {
    bias = graph.add(Parameter{.dtype = type.dtype, .shape = {options.out}}, {},
                     options.label + ".bias");
  }
  if (options.bias_on_grid && accumulators_have_grid(graph, x, w, 0)) {
    bias = graph.add(FakeQuantizeBias{}, {bias, *quantizer_behind(graph, x), w},
                     options.label + ".bias.quantized");
  }
  if (!norm) return graph.add(AddBias{}, {product, bias}, options.label);
  return norm->correct(graph.add(AddBias{}, {product, bias}), bias, options.label);
}

NodeId batch_norm(Graph& graph, NodeId x, const BatchNormOptions& options) {
  const TensorType type = graph[x].type;
  check(type.shape.rank() >= 2, "batch_norm '{}': x needs rank >= 2, got {}", options.label,
        to_string(type));
  const NormLeaves leaves =
      add_norm_leaves(graph, {type.dtype, {type.shape[-1]}}, options.label);
  return graph.add(options.op, {x, leaves.gamma, leaves.beta, leaves.mean, leaves.variance},
                   options.label);
}

}  // namespace qtape
