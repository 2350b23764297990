#include "qtape/examples/train_mlp/network.h"

#include <fmt/format.h>

#include "qtape/engine/quantizers.h"
#include "qtape/model/layers.h"

namespace qtape::examples {
namespace {

std::optional<Op> weight_quantizer(const Settings& settings) {
  if (settings.weight_bits == 0) return std::nullopt;
  const int bits = static_cast<int>(settings.weight_bits);
  if (settings.scale_mode == Quantization::LSQ) return FakeQuantizeLSQ{.bits = bits, .axis = 0};
  return FakeQuantize{.bits = bits, .axis = 0, .ste = settings.ste, .scale_mode = PerBatch{}};
}

std::optional<Op> activation_quantizer(const Settings& settings, CodeRange range) {
  if (settings.activation_bits == 0) return std::nullopt;
  const int bits = static_cast<int>(settings.activation_bits);
  FakeQuantize quantizer{.bits = bits, .range = range, .ste = settings.ste};
  switch (settings.scale_mode) {
    case Quantization::LSQ:
      return FakeQuantizeLSQ{.bits = bits, .range = range};
    case Quantization::PACT:
      if (range == CodeRange::Unsigned) return FakeQuantizePACT{.bits = bits};
      break;
    case Quantization::PerBatch:
      return quantizer;
    case Quantization::EMA:
      break;
  }
  return quantizer.with(&FakeQuantize::scale_mode, EMA{.decay = 0.99});
}

/// x after a quantizer of its `range`; x itself where activations are float.
NodeId quantized(Graph& graph, const Settings& settings, NodeId x, CodeRange range,
                 const std::string& label) {
  const auto quantizer = activation_quantizer(settings, range);
  return quantizer ? add_quantizer(graph, x, *quantizer, label) : x;
}

/// A layer whose input gets a quantizer.
NodeId usual_linear(Graph& graph, const Settings& settings, NodeId x, int64_t out,
                    const std::string& label) {
  return linear(graph, x,
                {.out = out,
                 .weight_quantizer = weight_quantizer(settings),
                 .input_quantizer = activation_quantizer(settings, CodeRange::Unsigned),
                 .label = label});
}

/// A layer whose input is quantized already.
NodeId inner_linear(Graph& graph, const Settings& settings, NodeId x, int64_t out,
                    const std::string& label) {
  return linear(graph, x,
                {.out = out, .weight_quantizer = weight_quantizer(settings), .label = label});
}

/// Relu(Qa(fc(h)) + Qb(skip)) of h >= 0. The skip is h where the widths agree.
NodeId residual_layer(Graph& graph, const Settings& settings, NodeId h, int64_t width,
                      const std::string& label) {
  const bool direct = graph[h].type.shape[-1] == width;
  const NodeId x = quantized(graph, settings, h, CodeRange::Unsigned, label + ".input");
  NodeId branch = inner_linear(graph, settings, x, width, label);
  NodeId skip = direct ? h : inner_linear(graph, settings, x, width, label + ".skip");
  branch = quantized(graph, settings, branch, CodeRange::Full, label + ".branch");
  skip = quantized(graph, settings, skip, direct ? CodeRange::Unsigned : CodeRange::Full,
                   label + ".skip");
  return graph.add(Relu{}, {graph.add(Add{}, {branch, skip})});
}

/// A layer of its own for each half of the features of x, and their results side by side.
NodeId split_layer(Graph& graph, const Settings& settings, NodeId x, int64_t width,
                   const std::string& label) {
  const int64_t features = graph[x].type.shape[-1];
  require<ArgumentError>(features >= 2,
                         "model Concat needs images of at least 2 pixels, got {}", features);
  x = quantized(graph, settings, x, CodeRange::Unsigned, label + ".input");
  const auto half = [&](const Slice& slice, int64_t out, const std::string& name) {
    const NodeId part = graph.add(slice, {x});
    const NodeId y = graph.add(Relu{}, {inner_linear(graph, settings, part, out, name)});
    return quantized(graph, settings, y, CodeRange::Unsigned, name + ".output");
  };
  const NodeId upper = half({.axis = -1, .end = features / 2}, width / 2, label + ".upper");
  const NodeId lower =
      half({.axis = -1, .begin = features / 2}, width - width / 2, label + ".lower");
  return graph.add(Concat{.axis = -1}, {upper, lower});
}

std::string layer_label(size_t i) { return fmt::format("fc{}", i + 1); }

/// Hidden layer i, its activation included.
NodeId hidden_layer(Graph& graph, const Settings& settings, NodeId x, size_t i) {
  const int64_t width = settings.layers[i];
  const std::string label = layer_label(i);
  if (settings.model == Architecture::Residual && i > 0) {
    return residual_layer(graph, settings, x, width, label);
  }
  if (settings.model == Architecture::Concat && i == 0) {
    return split_layer(graph, settings, x, width, label);
  }
  return graph.add(Relu{}, {usual_linear(graph, settings, x, width, label)});
}

void validate_model(const Settings& s) {
  if (s.model == Architecture::Residual) {
    require<ArgumentError>(s.layers.size() >= 2,
                           "model Residual needs at least 2 hidden layers, got {}",
                           s.layers.size());
  }
  if (s.model == Architecture::Concat) {
    require<ArgumentError>(!s.layers.empty(),
                           "model Concat needs at least 1 hidden layer, got 0");
    require<ArgumentError>(s.layers[0] >= 2,
                           "model Concat needs a first hidden layer of width 2 or more, got {}",
                           s.layers[0]);
  }
}

}  // namespace

void validate(const Settings& settings) {
  require_limits(settings);
  validate_model(settings);
}

QuantizationSchedule schedule_of(const Settings& settings) {
  return {.delay = settings.quantize_after,
          .freeze = settings.freeze_after,
          .warm_up = settings.warm_up};
}

Network make_network(const Settings& settings, const data::Dataset& dataset) {
  Network network;
  Graph& graph = network.graph;
  network.x = graph.add(Input{.shape = {settings.batch, dataset.features()}}, {}, "x");
  network.labels =
      graph.add(Input{.dtype = DType::S32, .shape = {settings.batch}}, {}, "labels");
  NodeId y = network.x;
  for (size_t i = 0; i < settings.layers.size(); ++i) {
    y = hidden_layer(graph, settings, y, i);
  }
  y = usual_linear(graph, settings, y, dataset.classes, layer_label(settings.layers.size()));
  network.logits = y;
  network.loss = graph.add(SoftmaxCrossEntropy{}, {y, network.labels}, "loss");
  graph.set_outputs({network.logits, network.loss});
  return network;
}

}  // namespace qtape::examples
