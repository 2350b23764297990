#include "qtape/engine/layers.h"

namespace qtape {

NodeId fake_quantize(Graph& graph, NodeId x, const FakeQuantize& quantizer,
                     const std::string& label) {
  if (std::holds_alternative<PerBatch>(quantizer.scale_mode)) {
    return graph.add(quantizer, {x}, label + ".quantized");
  }
  const TensorType& type = graph[x].type;
  if (quantizer.axis) resolve_axis(*quantizer.axis, type.shape);
  const State scale{.dtype = scale_dtype(type.dtype),
                    .shape = {quantizer.channels(type.shape)}};
  const NodeId state = graph.add(scale, {}, label + ".scale");
  return graph.add(quantizer, {x, state}, label + ".quantized");
}

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
    x = fake_quantize(graph, x, *options.input_quantizer, options.label + ".input");
  }
  if (options.weight_quantizer) {
    w = fake_quantize(graph, w, *options.weight_quantizer, options.label + ".weight");
  }
  if (!options.bias) return graph.add(MatMul{.transpose_b = true}, {x, w}, options.label);
  const NodeId product = graph.add(MatMul{.transpose_b = true}, {x, w});
  const NodeId bias = graph.add(Parameter{.dtype = type.dtype, .shape = {options.out}}, {},
                                options.label + ".bias");
  return graph.add(AddBias{}, {product, bias}, options.label);
}

}  // namespace qtape
