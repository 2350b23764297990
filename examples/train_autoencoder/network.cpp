#include "qtape/examples/train_autoencoder/network.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>

#include "qtape/calibrate/observer_method.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/data/spectra.h"
#include "qtape/model/insert_quantizers.h"
#include "qtape/model/layers.h"

namespace qtape::examples::autoencoder {
namespace {

constexpr std::array<int64_t, 10> widths = {128, 128, 128, 128, bottleneck,
                                            128, 128, 128, 128, data::spectrum_features};

struct Quantizers {
  std::optional<Op> weight;
  std::optional<Op> ends;    ///< x and reconstruction: any sign
  std::optional<Op> hidden;  ///< after a ReLU: never negative
};

FakeQuantize weight_grid(const Settings& settings) {
  return {.bits = static_cast<int>(settings.weight_bits), .axis = 0};
}

FakeQuantize hidden_grid(const Settings& settings) {
  return {.bits = static_cast<int>(settings.activation_bits), .range = CodeRange::Unsigned};
}

FakeQuantize ends_grid(const Settings& settings) {
  return hidden_grid(settings).with(&FakeQuantize::scheme, Scheme::Affine);
}

FakeQuantizeLSQ learned(const FakeQuantize& grid) {
  return {.bits = grid.bits, .axis = grid.axis, .range = grid.range, .scheme = grid.scheme};
}

FakeQuantize observed(const FakeQuantize& grid, const ScaleMode& mode) {
  return grid.with(&FakeQuantize::ste, Ste::ClippedIdentity)
      .with(&FakeQuantize::scale_mode, mode);
}

Quantizers trained_quantizers(const Settings& s) {
  if (s.scale_mode == ScaleOrigin::LSQ) {
    return {learned(weight_grid(s)), learned(ends_grid(s)), learned(hidden_grid(s))};
  }
  return {observed(weight_grid(s), PerBatch{}),
          observed(ends_grid(s), EMA{.decay = 0.99, .track = Track::Range}),
          observed(hidden_grid(s), EMA{.decay = 0.99})};
}

/// The layers alone; the one output is what the last one gives.
Graph layers(const Settings& settings, const Quantizers& quantizers) {
  Graph graph;
  NodeId y = graph.add(Input{.shape = {settings.batch, data::spectrum_features}}, {}, "x");
  for (size_t i = 0; i < widths.size(); ++i) {
    y = linear(graph, y,
               {.out = widths[i],
                .weight_quantizer = quantizers.weight,
                .input_quantizer = i == 0 ? quantizers.ends : quantizers.hidden,
                .label = fmt::format("fc{}", i + 1)});
    if (i + 1 < widths.size()) y = graph.add(Relu{}, {y});
  }
  graph.set_outputs({y});
  return graph;
}

/// Adds what comes after the layers.
Network finish(Graph graph, const std::optional<Op>& quantizer) {
  Network network;
  network.x = graph.at("x");
  for (size_t i = 0; i < widths.size(); ++i) {
    network.layers.push_back(graph.at(fmt::format("fc{}", i + 1)));
  }
  network.reconstruction = graph.outputs()[0];
  if (quantizer) {
    network.reconstruction =
        add_quantizer(graph, network.reconstruction, *quantizer, "reconstruction");
  }
  network.loss = graph.add(MeanSquaredError{}, {network.reconstruction, network.x}, "loss");
  graph.set_outputs({network.reconstruction, network.loss});
  network.graph = std::move(graph);
  return network;
}

void require_in(std::string_view name, int64_t value, int64_t low, int64_t high) {
  require<ArgumentError>(value >= low && value <= high, "{} must be in {}..{}, got {}", name,
                         low, high, value);
}

void require_rate(std::string_view name, double value) {
  require<ArgumentError>(value >= 0 && value <= 10, "{} must be in [0, 10], got {}", name,
                         value);
}

}  // namespace

void validate(const Settings& s) {
  constexpr int64_t largest = std::numeric_limits<int64_t>::max();
  require_in("samples", s.samples, 1, 1000000);
  require_in("test samples", s.test_samples, 1, 1000000);
  require_in("data seed", s.data_seed, 0, largest);
  require_in("weight bits", s.weight_bits, 2, 8);
  require_in("activation bits", s.activation_bits, 2, 16);
  require_in("calibration samples", s.calibration_samples, 1, 1000000);
  require_in("epochs", s.epochs, 1, 100000);
  require_in("QAT epochs", s.qat_epochs, 1, 100000);
  require_in("batch", s.batch, 1, s.samples);
  require_in("seed", s.seed, 0, largest);
  require_rate("learning rate", s.learning_rate);
  require_rate("QAT learning rate", s.qat_learning_rate);
  if (s.observer != "search") (void)observer_method(s.observer);
}

Network float_network(const Settings& settings) {
  return finish(layers(settings, {}), std::nullopt);
}

Network fixed_network(const Settings& settings) {
  const auto fixed = [](const FakeQuantize& grid) {
    return grid.with(&FakeQuantize::scale_mode, Fixed{});
  };
  const Op weight = fixed(weight_grid(settings));
  const Op ends = fixed(ends_grid(settings));
  Graph graph = layers(settings, {});
  graph = insert_quantizers(graph, {.weight = weight, .input = ends, .pattern = "fc1.weight"});
  graph = insert_quantizers(graph, {.weight = weight, .input = fixed(hidden_grid(settings))});
  return finish(std::move(graph), ends);
}

Network trained_network(const Settings& settings) {
  const Quantizers quantizers = trained_quantizers(settings);
  return finish(layers(settings, quantizers), quantizers.ends);
}

}  // namespace qtape::examples::autoencoder
