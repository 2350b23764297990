#include "qtape/model/layers.h"

#include "qtape/engine/quantizers.h"
#include "qtape/integer/code_flow.h"

namespace qtape {

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
  if (options.input_quantizer) {
    x = add_quantizer(graph, x, *options.input_quantizer, options.label + ".input");
  }
  if (options.weight_quantizer) {
    w = add_quantizer(graph, w, *options.weight_quantizer, options.label + ".weight");
  }
  const MatMul matmul{.transpose_b = true};
  if (!options.bias) return graph.add(matmul, {x, w}, options.label);
  const NodeId product = graph.add(matmul, {x, w});
  NodeId bias = graph.add(Parameter{.dtype = type.dtype, .shape = {options.out}}, {},
                          options.label + ".bias");
  if (options.bias_on_grid && accumulators_have_grid(graph, matmul, x, w)) {
    bias = graph.add(FakeQuantizeBias{}, {bias, *quantizer_behind(graph, x), w},
                     options.label + ".bias.quantized");
  }
  return graph.add(AddBias{}, {product, bias}, options.label);
}

}  // namespace qtape
