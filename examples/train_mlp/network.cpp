#include "qtape/examples/train_mlp/network.h"

#include <fmt/format.h>

#include "qtape/engine/layers.h"

namespace qtape::examples {
namespace {

std::optional<FakeQuantize> weight_quantizer(const Settings& settings) {
  if (settings.weight_bits == 0) return std::nullopt;
  return FakeQuantize{.bits = static_cast<int>(settings.weight_bits),
                      .axis = 0,
                      .ste = settings.ste,
                      .scale_mode = PerBatch{}};
}

std::optional<FakeQuantize> input_quantizer(const Settings& settings) {
  if (settings.activation_bits == 0) return std::nullopt;
  FakeQuantize quantizer{.bits = static_cast<int>(settings.activation_bits),
                         .range = CodeRange::Unsigned,
                         .ste = settings.ste,
                         .scale_mode = EMA{.decay = 0.99}};
  if (settings.scale_mode == ActivationScale::PerBatch) quantizer.scale_mode = PerBatch{};
  return quantizer;
}

}  // namespace

Network make_network(const Settings& settings, const data::Dataset& dataset) {
  Network network;
  Graph& graph = network.graph;
  network.x = graph.add(Input{.shape = {settings.batch, dataset.features()}}, {}, "x");
  network.labels =
      graph.add(Input{.dtype = DType::S32, .shape = {settings.batch}}, {}, "labels");
  NodeId y = network.x;
  for (size_t i = 0; i <= settings.layers.size(); ++i) {
    const bool last = i == settings.layers.size();
    y = linear(graph, y,
               {.out = last ? dataset.classes : settings.layers[i],
                .weight_quantizer = weight_quantizer(settings),
                .input_quantizer = input_quantizer(settings),
                .label = fmt::format("fc{}", i + 1)});
    if (!last) y = graph.add(Relu{}, {y});
  }
  network.logits = y;
  network.loss = graph.add(SoftmaxCrossEntropy{}, {y, network.labels}, "loss");
  graph.set_outputs({network.logits, network.loss});
  return network;
}

}  // namespace qtape::examples
