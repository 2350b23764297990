#include "qtape/examples/train_autoencoder/initialize.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "qtape/examples/train_autoencoder/network.h"

namespace qtape::examples::autoencoder {
namespace {

constexpr int64_t max_samples = 500;
constexpr double min_deviation = 1e-3;

struct Moments {
  double mean = 0;
  double deviation = 0;
};

/// Returns the moments of each column of `values` [rows, columns].
std::vector<Moments> moments_of(std::span<const float> values, size_t columns) {
  const size_t count = values.size() / columns;
  const auto rows = static_cast<double>(count);
  std::vector<Moments> moments(columns);
  for (size_t i = 0; i < values.size(); ++i) {
    moments[i % columns].mean += static_cast<double>(values[i]) / rows;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - moments[i % columns].mean;
    moments[i % columns].deviation += difference * difference / rows;
  }
  for (Moments& each : moments) each.deviation = std::sqrt(each.deviation);
  return moments;
}

/// Scales and shifts each unit of a layer from its moments `has` to the moments `wanted`.
void adjust(Parameters& parameters, const std::string& layer, std::span<const Moments> has,
            std::span<const Moments> wanted) {
  const std::span<float> weight = parameters.at(layer + ".weight").values<float>();
  const std::span<float> bias = parameters.at(layer + ".bias").values<float>();
  const size_t inputs = weight.size() / bias.size();
  for (size_t unit = 0; unit < bias.size(); ++unit) {
    // The scale is unknown if there are too few samples or all are equal.
    const bool known = has[unit].deviation > min_deviation;
    const double factor = known ? wanted[unit].deviation / has[unit].deviation : 1.0;
    for (float& each : weight.subspan(unit * inputs, inputs)) {
      each = static_cast<float>(static_cast<double>(each) * factor);
    }
    const double shifted = static_cast<double>(bias[unit]) - has[unit].mean;
    bias[unit] = static_cast<float>(shifted * factor + wanted[unit].mean);
  }
}

}  // namespace

void initialize_by_data(Model& model, const data::Spectra& spectra, int threads) {
  const int64_t rows = std::min(max_samples, spectra.size());
  std::vector<NodeId> layers;
  for (const std::string& label : layer_labels()) layers.push_back(model.graph().at(label));
  Tape tape(model.graph().with_batch(rows), model.parameters(),
            {.outputs = layers, .threads = threads});
  const std::span<float> x = tape.input<float>("x");
  std::ranges::copy(spectra.features().first(x.size()), x.begin());
  for (const NodeId layer : layers) {
    tape.forward(mode::float_eval);
    const auto units = static_cast<size_t>(model.graph()[layer].type.shape[1]);
    const bool last = layer == layers.back();
    const std::vector<Moments> wanted =
        last ? moments_of(x, units)
             : std::vector<Moments>(
                   units, {units == static_cast<size_t>(bottleneck) ? 1.0 : 0.0, 1.0});
    adjust(model.parameters(), model.graph()[layer].label,
           moments_of(tape.value<float>(layer), units), wanted);
  }
}

}  // namespace qtape::examples::autoencoder
