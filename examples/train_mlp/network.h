// The network that train_mlp trains, and the settings that define a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/quantization_schedule.h"
#include "qtape/examples/data/dataset.h"

namespace qtape::examples {

/// How scales are come by.
enum class Quantization : uint8_t {
  EMA,       ///< weights from each batch, activations by running averages
  PerBatch,  ///< both from each batch
  LSQ,       ///< both learned
  PACT       ///< weights from each batch, activations by learned clipping
};

/// Everything that the result of a run depends on.
struct Settings {
  std::string data;        ///< directory with MNIST-format files; empty: generated digits
  int64_t samples = 7000;  ///< generated training digits
  std::vector<int64_t> layers = {256, 128};
  int64_t weight_bits = 8;      ///< 0: float
  int64_t activation_bits = 8;  ///< 0: float
  Ste ste = Ste::ClippedIdentity;
  Quantization scale_mode = Quantization::EMA;
  QuantizationSchedule schedule = {};
  int64_t epochs = 15;
  int64_t batch = 64;
  double learning_rate = 1e-3;
  int64_t seed = 1;
  bool operator==(const Settings&) const = default;
};

/// Throws ArgumentError, which names it, for a setting out of its range.
void validate(const Settings& settings);

struct Network {
  Graph graph;  ///< outputs: logits, loss
  NodeId x;
  NodeId labels;
  NodeId logits;
  NodeId loss;
};

/// A ReLU network of the settings' layers on images of `dataset`'s size. Weights are quantized
/// narrow and per output channel; each layer's input unsigned and per tensor.
Network make_network(const Settings& settings, const data::Dataset& dataset);

}  // namespace qtape::examples

namespace qtape {
template <>
inline constexpr auto enum_names<examples::Quantization> =
    std::array<std::string_view, 4>{"EMA", "PerBatch", "LSQ", "PACT"};
}  // namespace qtape
