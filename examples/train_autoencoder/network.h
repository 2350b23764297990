// The autoencoder that train_autoencoder trains, without and with quantizers, and the settings
// that define a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape::examples::autoencoder {

using namespace kernels;

/// How the scales of the trained quantizers are come by.
enum class ScaleOrigin : uint8_t {
  EMA,  ///< weights from each batch, activations by running averages
  LSQ   ///< both learned
};

/// Everything that the result of a run depends on.
struct Settings {
  int64_t samples = 4000;       ///< generated training samples, all normal
  int64_t test_samples = 1000;  ///< normal ones and as many anomalous ones
  int64_t data_seed = 1;
  int64_t weight_bits = 8;
  int64_t activation_bits = 8;  ///< of the input and the reconstruction, too
  ScaleOrigin scale_mode = ScaleOrigin::LSQ;
  std::string observer = "MinMax";     ///< of calibration; "search": the best for each
  int64_t calibration_samples = 1000;  ///< the first of the training samples, at most all
  int64_t epochs = 80;                 ///< in float, before the models part
  int64_t qat_epochs = 80;             ///< from there, in float and with quantizers
  int64_t batch = 64;
  double learning_rate = 1e-3;
  double qat_learning_rate = 1e-3;  ///< of the epochs after the first ones
  int64_t seed = 1;                 ///< of weights and order
  Requantization requantization =
      Requantization::FloatMultiply;  ///< how integer programs requantize
  bool operator==(const Settings&) const = default;
};

/// Throws ArgumentError, which names it, for a setting out of its range.
void validate(const Settings& settings);

/// Width of the narrowest layer.
constexpr int64_t bottleneck = 8;

/// Dense layers of 640-128-128-128-128-8-128-128-128-128-640, ReLU after all but the last.
/// The reconstruction needs x alone.
struct Network {
  Graph graph;  ///< outputs: reconstruction, loss
  NodeId x;
  std::vector<NodeId> layers;  ///< what each layer gives, before a ReLU
  NodeId reconstruction;       ///< after its quantizer, where there is one
  NodeId loss;                 ///< mean squared difference from x
};

/// Without quantizers.
Network float_network(const Settings& settings);
/// The float network with quantizers inserted whose states calibration fills: weights narrow
/// and per output channel, each layer's input and the reconstruction unsigned and per tensor;
/// x and the reconstruction with a zero point. Values of parameters fit: labels are the same.
Network fixed_network(const Settings& settings);
/// The same grids in quantizers for training.
Network trained_network(const Settings& settings);

}  // namespace qtape::examples::autoencoder

namespace qtape {
template <>
inline constexpr auto enum_names<examples::autoencoder::ScaleOrigin> =
    std::array<std::string_view, 2>{"EMA", "LSQ"};
}  // namespace qtape
