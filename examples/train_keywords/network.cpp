#include "qtape/examples/train_keywords/network.h"

#include "qtape/examples/classifier/builder.h"

namespace qtape::examples {

Network make_network(const KeywordSettings& settings, const data::Dataset& dataset) {
  Network network = start_network(settings.recipe, dataset);
  Graph& graph = network.graph;
  Builder build(graph, settings.recipe);
  NodeId x = graph.add(Reshape{.shape = {-1, dataset.rows, dataset.cols}}, {network.x});
  const auto layer = [&](bool depthwise, int64_t kernel, int64_t stride,
                         const std::string& label) {
    x = build.quantize(x, CodeRange::Unsigned, label + ".input");
    const Conv1d op{.stride = stride, .padding = Padding::Same};
    const LayerOptions options = build.layer(settings.channels, label, true);
    x = build.relu(depthwise ? depthwise_conv1d(graph, x, op, kernel, options)
                             : conv1d(graph, x, op, kernel, options));
  };
  layer(false, 5, 2, "conv1");
  for (int64_t i = 2; i <= settings.blocks + 1; ++i) {
    layer(true, 5, 1, fmt::format("conv{}.depthwise", i));
    layer(false, 1, 1, fmt::format("conv{}.pointwise", i));
  }
  x = build.quantize(x, CodeRange::Unsigned, "fc.features");
  x = graph.add(Mean{.axes = {1}}, {x});
  x = build.quantize(x, CodeRange::Unsigned, "fc.input");
  finish_network(network, linear(graph, x, build.layer(dataset.classes, "fc", false)));
  return network;
}

}  // namespace qtape::examples
