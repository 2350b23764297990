// The network that train_mlp trains, and the settings that define a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/quantization_schedule.h"
#include "qtape/examples/data/dataset.h"
#include "qtape/examples/shared/settings.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape::examples {

using namespace kernels;

/// Where scales come from.
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
  std::string data;  ///< empty: generated digits
  int64_t samples = 7000;
  Architecture model = Architecture::MLP;
  std::vector<int64_t> layers = {256, 128};
  int64_t weight_bits = 8;      ///< 0: float
  int64_t activation_bits = 8;  ///< 0: float
  Ste ste = Ste::ClippedIdentity;
  Quantization scale_mode = Quantization::EMA;
  std::optional<Requantization> exact = std::nullopt;
  int64_t quantize_after = 0;
  std::optional<int64_t> freeze_after = std::nullopt;
  int64_t warm_up = 0;
  int64_t epochs = 15;
  int64_t batch = 64;
  double learning_rate = 1e-3;
  int64_t seed = 1;

  static constexpr auto fields() {
    using S = Settings;
    constexpr Limits<int64_t> bits{.low = 2, .high = 16, .zero = "float"};
    return std::tuple{
        setting("data", &S::data,
                "directory with MNIST-format IDX files, plain or .gz; without it, digits are "
                "generated"),
        setting("samples", &S::samples, "training digits to generate", {1, 1000000}),
        setting("model", &S::model,
                "how the layers are put together: one after another, with skip connections, "
                "the first one cut in two"),
        setting("layers", &S::layers, "widths of the hidden layers", {1, 65536})
            .called("layer width")
            .at_most(64),
        setting("weight_bits", &S::weight_bits, "bits of weights, 0 = float", bits),
        setting("activation_bits", &S::activation_bits, "bits of activations, 0 = float", bits),
        setting("ste", &S::ste, "straight-through estimator"),
        setting("scale_mode", &S::scale_mode, "where scales come from"),
        setting("exact", &S::exact,
                "compute on integer codes between quantizers, requantized by this "
                "requantization; without it, in floats"),
        setting("quantize_after", &S::quantize_after, "steps in float before quantizers apply",
                {.low = 0}),
        setting("freeze_after", &S::freeze_after, "step from which observers stand still",
                {.low = 0}),
        setting("warm_up", &S::warm_up, "steps that scales are averaged over evenly",
                {.low = 0}),
        setting("epochs", &S::epochs, "passes over the training data", {1, 100000}),
        setting("batch", &S::batch, "images per step", {1, 1000000}),
        setting("lr", &S::learning_rate, "learning rate at the start; decays to 0 by cosine",
                {0, 10})
            .called("learning rate"),
        setting("seed", &S::seed, "seed of weights and order", {.low = 0})};
  }
  bool operator==(const Settings&) const = default;
};

/// Throws ArgumentError, which names it, for a setting out of its range: Residual needs 2
/// hidden layers, Concat a first one of width 2 or more.
void validate(const Settings& settings);

/// When quantizers apply and observers stop.
QuantizationSchedule schedule_of(const Settings& settings);

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
