// The autoencoder of train_autoencoder, without and with quantizers, and the settings that
// define a run.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/kernels/quantize/requantize.h"
#include "qtape/model/recipe.h"
#include "qtape/programs/settings.h"

namespace qtape::examples {

using namespace programs;

}  // namespace qtape::examples

namespace qtape::examples::autoencoder {

using namespace kernels;

/// All settings on which the result of a run depends.
struct Settings {
  int64_t samples = 4000;
  int64_t test_samples = 1000;
  int64_t data_seed = 1;
  int64_t weight_bits = 8;
  int64_t activation_bits = 8;
  ScaleOrigin scale_mode = ScaleOrigin::LSQ;
  bool power_of_two = false;
  std::string observer = "MinMax";
  int64_t calibration_samples = 1000;
  Requantization requantization = Requantization::FloatMultiply;
  int64_t epochs = 80;
  int64_t qat_epochs = 80;
  int64_t batch = 64;
  double learning_rate = 1e-3;
  double qat_learning_rate = 1e-3;
  int64_t seed = 1;

  static constexpr auto fields() {
    using S = Settings;
    return std::tuple{
        setting("samples", &S::samples, "training samples to generate", {1, 1000000}),
        setting("test_samples", &S::test_samples,
                "normal test samples to generate, and the same number of anomalous ones",
                {1, 1000000}),
        setting("data_seed", &S::data_seed, "seed of the samples", {.low = 0}),
        setting("weight_bits", &S::weight_bits, "bits of weights", {2, 8}),
        setting("activation_bits", &S::activation_bits,
                "bits of each layer's input and of the reconstruction", {2, 16}),
        setting("scale_mode", &S::scale_mode, "source of the scales of trained quantizers"),
        setting("power_of_two", &S::power_of_two,
                "round scales up to powers of two; not with LSQ or PACT"),
        setting("observer", &S::observer,
                "observer of calibration, such as MinMax or Mse; search: the best for each "
                "quantizer"),
        setting("calibration_samples", &S::calibration_samples,
                "training samples to calibrate with, at most all", {1, 1000000}),
        setting("requantization", &S::requantization, "requantization of integer programs"),
        setting("epochs", &S::epochs,
                "passes over the training data in float, before the runs with and without "
                "quantizers",
                {1, 100000}),
        setting("qat_epochs", &S::qat_epochs,
                "further passes after these, for one model in float and one with quantizers",
                {1, 100000})
            .called("QAT epochs"),
        setting("batch", &S::batch, "samples per step", {1, 1000000}),
        setting("lr", &S::learning_rate, "initial learning rate; decays to 0 by cosine",
                {0, 10})
            .called("learning rate"),
        setting("qat_lr", &S::qat_learning_rate, "initial learning rate of the further passes",
                {0, 10})
            .called("QAT learning rate"),
        setting("seed", &S::seed, "seed of weights and order", {.low = 0})};
  }
  bool operator==(const Settings&) const = default;
};

/// Throws ArgumentError, which names the setting, for a setting out of range: a batch has at
/// most all training samples, and an observer is one of calibration or "search".
void validate(const Settings& settings);

/// Width of the narrowest layer.
constexpr int64_t bottleneck = 8;

/// Dense layers fc1 to fc10 of 640-128-128-128-128-8-128-128-128-128-640, ReLU after all except
/// the last. Outputs are the reconstruction of x, after its quantizer if there is one, which
/// depends only on x, and the mean squared difference from x.
///
/// This network has no quantizers.
Graph float_network(const Settings& settings);
/// Returns the float network with quantizers whose states calibration fills: weights narrow and
/// per output channel, each layer's input and the reconstruction unsigned and per tensor; x and
/// the reconstruction with a zero point. Parameter values of the float network fit, because
/// labels are the same.
Graph fixed_network(const Settings& settings);
/// Returns the network with quantizers on the same grids for training.
Graph trained_network(const Settings& settings);

/// Returns the labels of the layers, in order.
std::vector<std::string> layer_labels();

}  // namespace qtape::examples::autoencoder
