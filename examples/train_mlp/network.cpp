#include "qtape/examples/train_mlp/network.h"

#include <fmt/format.h>

#include <limits>

#include "qtape/engine/layers.h"

namespace qtape::examples {
namespace {

std::optional<Op> weight_quantizer(const Settings& settings) {
  if (settings.weight_bits == 0) return std::nullopt;
  const int bits = static_cast<int>(settings.weight_bits);
  if (settings.scale_mode == Quantization::LSQ) return FakeQuantizeLSQ{.bits = bits, .axis = 0};
  return FakeQuantize{.bits = bits, .axis = 0, .ste = settings.ste, .scale_mode = PerBatch{}};
}

std::optional<Op> input_quantizer(const Settings& settings) {
  if (settings.activation_bits == 0) return std::nullopt;
  const int bits = static_cast<int>(settings.activation_bits);
  FakeQuantize quantizer{.bits = bits, .range = CodeRange::Unsigned, .ste = settings.ste};
  switch (settings.scale_mode) {
    case Quantization::LSQ:
      return FakeQuantizeLSQ{.bits = bits, .range = CodeRange::Unsigned};
    case Quantization::PACT:
      return FakeQuantizePACT{.bits = bits};
    case Quantization::PerBatch:
      return quantizer;
    case Quantization::EMA:
      break;
  }
  return quantizer.with(&FakeQuantize::scale_mode, EMA{.decay = 0.99});
}

void require_in(std::string_view name, int64_t value, int64_t low, int64_t high) {
  require<ArgumentError>(value >= low && value <= high, "{} must be in {}..{}, got {}", name,
                         low, high, value);
}

}  // namespace

void validate(const Settings& s) {
  require_in("samples", s.samples, 1, 1000000);
  require_in("the number of layers", static_cast<int64_t>(s.layers.size()), 0, 64);
  for (int64_t width : s.layers) require_in("layer width", width, 1, 65536);
  require_in("weight bits", s.weight_bits, 0, 16);
  require_in("activation bits", s.activation_bits, 0, 16);
  validate(s.schedule);
  require_in("epochs", s.epochs, 1, 100000);
  require_in("batch", s.batch, 1, 1000000);
  require_in("seed", s.seed, 0, std::numeric_limits<int64_t>::max());
  require<ArgumentError>(s.learning_rate >= 0 && s.learning_rate <= 10,
                         "learning rate must be in [0, 10], got {}", s.learning_rate);
}

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
