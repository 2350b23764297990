#include "qtape/examples/train_autoencoder/network.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "qtape/calibrate/observer_method.h"
#include "qtape/data/generated/spectra.h"
#include "qtape/engine/quantizers.h"
#include "qtape/model/layers.h"
#include "qtape/model/passes/insert_quantizers.h"

namespace qtape::examples::autoencoder {
namespace {

constexpr std::array<int64_t, 10> widths = {128, 128, 128, 128, bottleneck,
                                            128, 128, 128, 128, data::spectrum_features};

struct Quantizers {
  std::optional<Op> weight;
  std::optional<Op> ends;    ///< of x and reconstruction: any sign
  std::optional<Op> hidden;  ///< of values after a ReLU: never negative
};

FakeQuantize weight_grid(const Settings& settings) {
  return {.bits = static_cast<int>(settings.weight_bits),
          .axis = 0,
          .power_of_two = settings.power_of_two};
}

FakeQuantize hidden_grid(const Settings& settings) {
  return {.bits = static_cast<int>(settings.activation_bits),
          .range = CodeRange::Unsigned,
          .power_of_two = settings.power_of_two};
}

FakeQuantize ends_grid(const Settings& settings) {
  return hidden_grid(settings).with(&FakeQuantize::scheme, Scheme::Affine);
}

Quantizers trained_quantizers(const Settings& s) {
  const auto trained = [&](const FakeQuantize& grid, const ScaleMode& mode) {
    return with_scales(grid.with(&FakeQuantize::ste, Ste::ClippedIdentity)
                           .with(&FakeQuantize::scale_mode, mode),
                       s.scale_mode);
  };
  return {trained(weight_grid(s), PerBatch{}),
          trained(ends_grid(s), EMA{.decay = 0.99, .track = Track::Range}),
          trained(hidden_grid(s), EMA{.decay = 0.99})};
}

/// Returns the graph of the layers; its only output is the result of the last one.
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

/// Adds the quantizer of the reconstruction, if any, and the loss.
Graph finish(Graph graph, const std::optional<Op>& quantizer) {
  NodeId reconstruction = graph.outputs()[0];
  if (quantizer) {
    reconstruction = add_quantizer(graph, reconstruction, *quantizer, "reconstruction");
  }
  const NodeId loss = graph.add(MeanSquaredError{}, {reconstruction, graph.at("x")}, "loss");
  graph.set_outputs({reconstruction, loss}, {loss});
  return graph;
}

}  // namespace

void validate(const Settings& settings) {
  require_limits(settings);
  require_in("batch", Limits<int64_t>{1, settings.samples}, settings.batch);
  if (settings.observer != "search") (void)observer_method(settings.observer);
  require<ArgumentError>(
      !settings.power_of_two || !has_learned_scales(settings.scale_mode),
      "power of two requires scales that follow the data; those of {} are learned; try scale "
      "mode EMA",
      to_string_view(settings.scale_mode));
  require<ArgumentError>(settings.scale_mode != ScaleOrigin::PerBatch,
                         "scale mode PerBatch takes scales from each batch, so that the model "
                         "has no integer program; use EMA, Delayed, LSQ or PACT");
}

std::vector<std::string> layer_labels() {
  std::vector<std::string> labels;
  for (size_t i = 1; i <= widths.size(); ++i) labels.push_back(fmt::format("fc{}", i));
  return labels;
}

Graph float_network(const Settings& settings) {
  return finish(layers(settings, {}), std::nullopt);
}

Graph fixed_network(const Settings& settings) {
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

Graph trained_network(const Settings& settings) {
  const Quantizers quantizers = trained_quantizers(settings);
  return finish(layers(settings, quantizers), quantizers.ends);
}

}  // namespace qtape::examples::autoencoder
