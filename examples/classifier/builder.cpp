#include "qtape/examples/classifier/builder.h"

#include "qtape/engine/quantizers.h"
#include "qtape/integer/code_flow.h"

namespace qtape::examples {

NodeId Builder::quantize(NodeId x, CodeRange range, const std::string& label) {
  if (quantizer_behind(graph_, x)) return x;
  return quantized(graph_, recipe_, x, range, label);
}

LayerOptions Builder::layer(int64_t out, const std::string& label, bool norm) const {
  LayerOptions options{
      .out = out, .weight_quantizer = weight_quantizer(recipe_), .label = label};
  if (norm) {
    options.folded_norm = BatchNorm{};
  } else {
    options.weight_initializer = init::XavierUniform{};
  }
  return options;
}

NodeId Builder::conv(NodeId x, int64_t out, int64_t kernel, int64_t stride,
                     const std::string& label, CodeRange range) {
  x = quantize(x, range, label + ".input");
  return conv2d(graph_, x, {.stride = {stride, stride}, .padding = Padding::Same},
                {kernel, kernel}, layer(out, label, true));
}

NodeId Builder::depthwise(NodeId x, int64_t kernel, int64_t stride, const std::string& label,
                          CodeRange range) {
  x = quantize(x, range, label + ".input");
  return depthwise_conv2d(graph_, x, {.stride = {stride, stride}, .padding = Padding::Same},
                          {kernel, kernel}, layer(channels(x), label, true));
}

NodeId Builder::residual(NodeId branch, NodeId skip, CodeRange skip_range,
                         const std::string& label) {
  branch = quantize(branch, CodeRange::Full, label + ".branch");
  skip = quantize(skip, skip_range, label + ".skip");
  return qtape::residual(graph_, branch, skip, std::nullopt, std::nullopt, label);
}

NodeId Builder::head(NodeId x, int64_t classes, const std::string& label) {
  x = quantize(x, CodeRange::Unsigned, label + ".features");
  const NodeId mean = graph_.add(GlobalAvgPool{}, {x});
  const NodeId features =
      quantized(graph_, recipe_, mean, CodeRange::Unsigned, label + ".input");
  return linear(graph_, features, layer(classes, label, false));
}

Network start_network(const Recipe& recipe, const data::Dataset& dataset) {
  Network network;
  network.x = network.graph.add(Input{.shape = {recipe.batch, dataset.features()}}, {}, "x");
  network.labels =
      network.graph.add(Input{.dtype = DType::S32, .shape = {recipe.batch}}, {}, "labels");
  return network;
}

void finish_network(Network& network, NodeId logits) {
  network.logits = logits;
  network.loss = network.graph.add(SoftmaxCrossEntropy{}, {logits, network.labels}, "loss");
  network.graph.set_outputs({network.logits, network.loss});
}

}  // namespace qtape::examples
