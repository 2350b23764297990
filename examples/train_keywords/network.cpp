#include "qtape/examples/train_keywords/network.h"

#include "qtape/examples/classifier/builder.h"

namespace qtape::examples {

Graph make_network(const KeywordSettings& settings, const data::Dataset& dataset) {
  const Shape& sound = dataset.columns()[0].sample.shape;
  const Builder build(settings.recipe);
  Network network;
  Value x = reshape(network.input("x", {sound.elements()}), {sound[0], sound[1]});
  const auto layer = [&](bool depthwise, int64_t kernel, int64_t stride,
                         const std::string& label) {
    x = build.quantize(x, CodeRange::Unsigned, label + ".input");
    const Conv1d op{.stride = stride, .padding = Padding::Same};
    const Layer options = build.layer(label, true);
    x = relu(depthwise ? depthwise_conv1d(x, kernel, options, op)
                       : conv1d(x, settings.channels, kernel, options, op));
  };
  layer(false, 5, 2, "conv1");
  for (int64_t i = 2; i <= settings.blocks + 1; ++i) {
    layer(true, 5, 1, fmt::format("conv{}.depthwise", i));
    layer(false, 1, 1, fmt::format("conv{}.pointwise", i));
  }
  x = build.quantize_pooled(x, "fc.features");
  x = build.quantize_pooled(node(Mean{.axes = {1}}, {x}), "fc.input");
  return classifier(linear(x, dataset.classes(), build.layer("fc", false)), settings.recipe);
}

}  // namespace qtape::examples
