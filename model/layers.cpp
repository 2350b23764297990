#include "qtape/model/layers.h"

#include <algorithm>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/model/passes/folded_norm.h"

namespace qtape {
namespace {

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

NodeId add_layer(Graph& graph, NodeId x, const Op& op, const Shape& shape,
                 const LayerOptions& options) {
  const DType dtype = graph[x].type.dtype;
  const std::string& label = options.label;
  NodeId w = graph.add(
      Parameter{.dtype = dtype, .shape = shape, .initializer = options.weight_initializer}, {},
      label + ".weight");
  std::optional<FoldedNorm> norm;
  NodeId bias;
  if (options.folded_norm) {
    norm.emplace(graph, *options.folded_norm,
                 add_norm_leaves(graph, TensorType{dtype, {options.out}}, label));
    w = norm->weight(w, 0);
    bias = norm->bias(label + ".bias");
  }
  if (options.input_quantizer) {
    x = add_quantizer(graph, x, *options.input_quantizer, label + ".input");
  }
  if (options.weight_quantizer) {
    w = add_quantizer(graph, w, *options.weight_quantizer, label + ".weight");
  }
  if (!norm && !options.bias) return graph.add(op, {x, w}, label);
  const NodeId product = graph.add(op, {x, w});
  if (!norm) {
    bias = graph.add(Parameter{.dtype = dtype, .shape = {options.out}}, {}, label + ".bias");
  }
  if (options.bias_on_grid) {
    bias = add_rounded_bias(graph, product, bias, label + ".bias.quantized");
  }
  if (!norm) return graph.add(AddBias{}, {product, bias}, label);
  return norm->correct(graph.add(AddBias{}, {product, bias}), bias, label);
}

/// Adds the product `op` of x and weights of shape `shape`, whose first axis is the output
/// axis, and the additional nodes of `options`.
NodeId layer(Graph& graph, NodeId x, const Op& op, const Shape& shape,
             const LayerOptions& options) {
  return graph.all_or_nothing([&] { return add_layer(graph, x, op, shape, options); });
}

void check_layer(const char* name, const LayerOptions& options, const TensorType& x, bool suits,
                 const char* expected) {
  check(suits, "{} '{}': x must be {}, got {}", name, options.label, expected, to_string(x));
  check(options.out >= 1, "{} '{}': out must be at least 1, got {}", name, options.label,
        options.out);
}

/// Returns the channels per group. Ops reject invalid groups, but filters need a valid extent
/// before that.
int64_t inputs_of_group(const Shape& x, int64_t groups) {
  return groups >= 1 ? std::max<int64_t>(1, x[-1] / groups) : 1;
}

/// Sets the options and op of a depthwise layer.
template <class Conv>
void make_depthwise(const Graph& graph, NodeId x, Conv& op, LayerOptions& options) {
  const Shape& shape = graph[x].type.shape;
  if (shape.rank() == 0) return;  // rejected by the layer
  op.groups = shape[-1];
  if (options.out == 0) options.out = shape[-1];
}

}  // namespace

NodeId linear(Graph& graph, NodeId x, const LayerOptions& options) {
  const TensorType type = graph[x].type;
  check_layer("linear", options, type, type.shape.rank() >= 1, "[..., in]");
  return layer(graph, x, MatMul{.transpose_b = true}, {options.out, type.shape[-1]}, options);
}

NodeId conv2d(Graph& graph, NodeId x, const Conv2d& op, const Shape& kernel,
              const LayerOptions& options) {
  const TensorType type = graph[x].type;
  check_layer("conv2d", options, type, type.shape.rank() == 4, "[n, h, w, c]");
  check(kernel.rank() == 2, "conv2d '{}': kernel must be [h, w], got {}", options.label,
        to_string(kernel));
  return layer(graph, x, op,
               {options.out, kernel[0], kernel[1], inputs_of_group(type.shape, op.groups)},
               options);
}

NodeId conv1d(Graph& graph, NodeId x, const Conv1d& op, int64_t kernel,
              const LayerOptions& options) {
  const TensorType type = graph[x].type;
  check_layer("conv1d", options, type, type.shape.rank() == 3, "[n, l, c]");
  return layer(graph, x, op, {options.out, kernel, inputs_of_group(type.shape, op.groups)},
               options);
}

NodeId depthwise_conv2d(Graph& graph, NodeId x, Conv2d op, const Shape& kernel,
                        LayerOptions options) {
  make_depthwise(graph, x, op, options);
  return conv2d(graph, x, op, kernel, options);
}

NodeId depthwise_conv1d(Graph& graph, NodeId x, Conv1d op, int64_t kernel,
                        LayerOptions options) {
  make_depthwise(graph, x, op, options);
  return conv1d(graph, x, op, kernel, options);
}

NodeId separable_conv2d(Graph& graph, NodeId x, const Conv2d& op, const Shape& kernel,
                        const LayerOptions& options, const Op& activation) {
  LayerOptions depthwise = options;
  depthwise.out = 0;
  depthwise.label = options.label + ".depthwise";
  LayerOptions pointwise = options;
  pointwise.label = options.label + ".pointwise";
  return graph.all_or_nothing([&] {
    const NodeId y = depthwise_conv2d(graph, x, op, kernel, std::move(depthwise));
    return conv2d(graph, graph.add(activation, {y}), Conv2d{}, {1, 1}, pointwise);
  });
}

NodeId residual(Graph& graph, NodeId branch, NodeId skip,
                const std::optional<Op>& branch_quantizer,
                const std::optional<Op>& skip_quantizer, const std::string& label) {
  const TensorType& one = graph[branch].type;
  const TensorType& two = graph[skip].type;
  check(one == two, "residual '{}': branch and skip must agree, got {} and {}", label,
        to_string(one), to_string(two));
  return graph.all_or_nothing([&] {
    if (branch_quantizer) {
      branch = add_quantizer(graph, branch, *branch_quantizer, label + ".branch");
    }
    if (skip_quantizer) skip = add_quantizer(graph, skip, *skip_quantizer, label + ".skip");
    return graph.add(Add{}, {branch, skip}, label);
  });
}

NodeId batch_norm(Graph& graph, NodeId x, const BatchNormOptions& options) {
  const TensorType type = graph[x].type;
  check(type.shape.rank() >= 2, "batch_norm '{}': x needs rank >= 2, got {}", options.label,
        to_string(type));
  return graph.all_or_nothing([&] {
    const NormLeaves leaves =
        add_norm_leaves(graph, {type.dtype, {type.shape[-1]}}, options.label);
    return graph.add(options.op, {x, leaves.gamma, leaves.beta, leaves.mean, leaves.variance},
                     options.label);
  });
}

}  // namespace qtape
