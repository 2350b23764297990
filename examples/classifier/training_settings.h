// Training settings that all classifier programs share, independent of the network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "qtape/core/gradient_precision.h"
#include "qtape/core/requantization.h"
#include "qtape/engine/arithmetic.h"
#include "qtape/engine/quantization_schedule.h"
#include "qtape/model/fit.h"
#include "qtape/model/recipe.h"
#include "qtape/model/value.h"
#include "qtape/programs/launch.h"
#include "qtape/programs/settings.h"

namespace qtape::examples {

using namespace programs;

/// Operands on which products of quantized operands are computed.
enum class Products : uint8_t {
  Values,
  Codes  ///< if both operands have 8-bit codes
};

struct TrainingSettings {
  std::string data = {};  ///< directory; empty: generated
  int64_t samples = 7000;
  int64_t holdout = 0;          ///< number of training samples for scores instead of the test
                                ///< samples
  std::string from = {};        ///< saved model to start from; empty: random weights
  int64_t weight_bits = 8;      ///< 0: float
  int64_t activation_bits = 8;  ///< 0: float
  std::optional<int64_t> ends_bits = std::nullopt;
  std::optional<int64_t> mean_bits = std::nullopt;
  std::optional<CodeRange> weight_codes = std::nullopt;
  Ste ste = Ste::ClippedIdentity;
  std::optional<ScaleOrigin> scale_mode = std::nullopt;
  bool power_of_two = false;
  std::optional<Requantization> exact = std::nullopt;
  std::optional<Products> products = std::nullopt;
  GradientPrecision gradient_precision = GradientPrecision::F32;
  std::optional<int64_t> quantize_after = std::nullopt;
  std::optional<int64_t> freeze_after = std::nullopt;
  std::optional<int64_t> freeze_norms_after = std::nullopt;
  int64_t warm_up = 0;
  double shift = 0;     ///< pixels
  double rotation = 0;  ///< degrees
  double noise = 0;     ///< relative to the range of a pixel
  int64_t epochs = 15;
  int64_t batch = 64;
  std::optional<int64_t> shards = std::nullopt;
  std::optional<double> learning_rate = std::nullopt;  ///< see learning_rate_of
  int64_t seed = 1;

  static constexpr auto run_fields() {
    using S = TrainingSettings;
    return std::tuple{
        setting("epochs", &S::epochs, "passes over the training data", {1, 100000}),
        setting("batch", &S::batch, "samples per step", {1, 1000000}),
        setting("shards", &S::shards, shards_help, {1, 1024}),
        setting("lr", &S::learning_rate,
                "initial learning rate, decays to 0 by cosine; by default 0.003, or 0.001 with "
                "--from and more than 4 bits",
                {0, 10})
            .called("learning rate"),
        setting("seed", &S::seed, "seed of weights, order and augmentation", {.low = 0})};
  }
  static constexpr auto fields() {
    using S = TrainingSettings;
    constexpr Limits<int64_t> bits{.low = 2, .high = 16, .zero = "float"};
    constexpr Limits<int64_t> some_bits{.low = 2, .high = 16};
    const std::tuple own{
        setting("data", &S::data,
                "directory with MNIST-format IDX files, plain or .gz; by default data are "
                "generated"),
        setting("samples", &S::samples, "training samples to generate", {1, 1000000}),
        setting("holdout", &S::holdout,
                "evaluate on this many of the last training samples, which are not trained on, "
                "instead of the test samples: to choose settings",
                {0, 1000000}),
        setting(
            "from", &S::from,
            "begin with the parameters of this saved model of the same layers, float or "
            "quantized, and calibrate the quantizers it lacks; by default with random weights"),
        setting("weight_bits", &S::weight_bits, "bits of weights, 0 = float", bits),
        setting("activation_bits", &S::activation_bits, "bits of activations, 0 = float", bits),
        setting("ends_bits", &S::ends_bits,
                "bits of weights and inputs of the first and the last layer; by default 8 "
                "instead of 3 or fewer with batch norms, otherwise as for all others",
                some_bits),
        setting("mean_bits", &S::mean_bits,
                "bits of the operand and the result of a global mean, whose values differ "
                "little; by default 8 if activations have at most 4",
                some_bits),
        setting("weight_codes", &S::weight_codes, "codes of weights; by default Narrow",
                {.refused = CodeRange::Unsigned}),
        setting("ste", &S::ste, "straight-through estimator"),
        setting("scale_mode", &S::scale_mode,
                "source of scales; by default LSQ if weights or activations have at most 3 "
                "bits, otherwise, and with power_of_two, EMA"),
        setting("power_of_two", &S::power_of_two,
                "round scales up to powers of two; not with LSQ or PACT"),
        setting("exact", &S::exact,
                "compute on integer codes between quantizers, with this requantization; by "
                "default in floats"),
        setting(
            "products", &S::products,
            "arithmetic of products of quantized operands, unless exact is given; by default "
            "on codes from 4 bits on and on values below, where codes cost accuracy"),
        setting(
            "gradient_precision", &S::gradient_precision,
            "precision of products of gradients; BF16 needs a processor with bf16 products"),
        setting("quantize_after", &S::quantize_after,
                "steps in float before quantizers apply; by default a third of a run from "
                "random weights with LSQ at 3 bits or fewer, otherwise none",
                {.low = 0}),
        setting("freeze_after", &S::freeze_after, "step from which observers are frozen",
                {.low = 0}),
        setting("freeze_norms_after", &S::freeze_norms_after,
                "step from which batch norms use their running statistics, as the deployed "
                "network does; by default after two thirds of the run",
                {.low = 0}),
        setting("warm_up", &S::warm_up, "number of steps over which scales are averaged evenly",
                {.low = 0}),
        setting("shift", &S::shift, "shift training images by up to this many pixels", {0, 64}),
        setting("rotation", &S::rotation, "rotate training images by up to this many degrees",
                {0, 180}),
        setting(
            "noise", &S::noise,
            "add noise of this standard deviation to training images, whose pixels are in 0..1",
            {0, 10})};
    return std::tuple_cat(own, run_fields());
  }
  bool operator==(const TrainingSettings&) const = default;
};

/// Returns the name of the data on which a run is scored: "test" or "holdout".
inline std::string_view scored_data(const TrainingSettings& recipe) {
  return recipe.holdout > 0 ? "holdout" : "test";
}

/// True if weights or activations have 3 bits or fewer.
bool has_few_bits(const TrainingSettings& recipe);

/// Returns the source of the scales, given or default.
ScaleOrigin scale_mode_of(const TrainingSettings& recipe);
/// Returns the learning rate that the settings state, otherwise the default: 0.003 from random
/// weights, `default_learning_rate` for further training.
double learning_rate_of(const TrainingSettings& recipe);

/// Returns when quantizers start, observers stop and norms freeze in a run of `steps` steps.
QuantizationSchedule schedule_of(const TrainingSettings& recipe, int64_t steps);

/// Returns the options of `fit` for training on `samples` samples.
FitOptions fit_options(const TrainingSettings& recipe, int64_t samples);

/// Returns the arithmetic of training steps that the settings state, if any.
std::optional<Arithmetic> arithmetic_of(const TrainingSettings& recipe);

/// Returns the quantizer of weights, per output channel on axis 0; empty if they are float.
std::optional<Op> weight_quantizer(const TrainingSettings& recipe);

/// Returns the quantizer of activations, per tensor; empty if they are float.
std::optional<Op> activation_quantizer(const TrainingSettings& recipe, CodeRange range);

/// Returns the recipe for activations of a global mean, see TrainingSettings::mean_bits.
TrainingSettings pooled(const TrainingSettings& recipe);

/// Returns the default bits of the first and the last layer, see default_ends_bits.
std::optional<int> default_ends_of(const Graph& graph, const TrainingSettings& recipe);

/// Returns a copy of `graph` whose first and last layers have the bits that the recipe gives
/// them.
Graph with_ends(const Graph& graph, const TrainingSettings& recipe);

/// Returns x quantized to `range`; x itself if it is quantized already or activations are
/// float.
Value quantized(const Value& x, const TrainingSettings& recipe, CodeRange range,
                const std::string& label);

}  // namespace qtape::examples

namespace qtape {
template <>
inline constexpr auto enum_names<examples::Products> =
    std::array<std::string_view, 2>{"Values", "Codes"};
}  // namespace qtape
