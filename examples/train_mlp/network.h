// The network that train_mlp trains, and the settings that define a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/quantization_schedule.h"
#include "qtape/examples/data/dataset.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape::examples {

using namespace kernels;

/// How scales are come by.
enum class Quantization : uint8_t {
  EMA,       ///< weights from each batch, activations by running averages
  PerBatch,  ///< both from each batch
  LSQ,       ///< both learned
  PACT       ///< weights from each batch, activations by learned clipping
};

/// How the layers are put together. fc1, fc2, ... are layers whose weights are quantized narrow
/// and per output channel, and whose inputs unsigned and per tensor.
enum class Architecture : uint8_t {
  /// Each hidden layer is Relu(fc(h)).
  MLP,
  /// Hidden layers after the first are Relu(Qa(fc(h)) + Qb(skip)): the skip is h, or a layer
  /// `fc2.skip` of the same quantized input where the widths differ; Qa is signed, and Qb is
  /// unless the skip is h. They are labelled `fc2.branch` and `fc2.skip`.
  Residual,
  /// The first hidden layer is cut in two: `fc1.upper` sees the first half of the quantized
  /// pixels, `fc1.lower` the rest. Their activations are quantized, unsigned, as
  /// `fc1.upper.output` and `fc1.lower.output`, then put side by side.
  Concat
};

/// Everything that the result of a run depends on.
struct Settings {
  std::string data;        ///< directory with MNIST-format files; empty: generated digits
  int64_t samples = 7000;  ///< generated training digits
  Architecture model = Architecture::MLP;
  std::vector<int64_t> layers = {256, 128};
  int64_t weight_bits = 8;      ///< 0: float
  int64_t activation_bits = 8;  ///< 0: float
  Ste ste = Ste::ClippedIdentity;
  Quantization scale_mode = Quantization::EMA;
  /// Requantization of exact arithmetic between quantizers; empty: floats.
  std::optional<Requantization> exact = std::nullopt;
  QuantizationSchedule schedule = {};
  int64_t epochs = 15;
  int64_t batch = 64;
  double learning_rate = 1e-3;
  int64_t seed = 1;
  bool operator==(const Settings&) const = default;
};

/// Throws ArgumentError, which names it, for a setting out of its range: Residual needs 2
/// hidden layers, Concat a first one of width 2 or more.
void validate(const Settings& settings);

struct Network {
  Graph graph;  ///< outputs: logits, loss
  NodeId x;
  NodeId labels;
  NodeId logits;
  NodeId loss;
};

/// A ReLU network of the settings' model and layers on images of `dataset`'s size. Throws
/// ArgumentError when Concat has less than 2 pixels to cut.
Network make_network(const Settings& settings, const data::Dataset& dataset);

}  // namespace qtape::examples

namespace qtape {
template <>
inline constexpr auto enum_names<examples::Quantization> =
    std::array<std::string_view, 4>{"EMA", "PerBatch", "LSQ", "PACT"};
template <>
inline constexpr auto enum_names<examples::Architecture> =
    std::array<std::string_view, 3>{"MLP", "Residual", "Concat"};
}  // namespace qtape
