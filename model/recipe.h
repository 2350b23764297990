// Recipes: how a float network is quantized for training, layer by layer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "qtape/core/described_settings.h"
#include "qtape/model/quantization.h"

namespace qtape {

/// Origin of the scales of quantizers in training.
enum class ScaleOrigin : uint8_t {
  EMA,       ///< weights from each batch, activations by running averages of their range
  Delayed,   ///< weights from each batch, activations by running averages of preceding steps
  PerBatch,  ///< both from each batch
  LSQ,       ///< both trained with the other parameters: FakeQuantizeLSQ
  PACT       ///< unsigned symmetric activations by a trained limit, all others as EMA
};
template <>
inline constexpr auto enum_names<ScaleOrigin> =
    std::array<std::string_view, 5>{"EMA", "Delayed", "PerBatch", "LSQ", "PACT"};

/// True if scales are trained.
constexpr bool has_learned_scales(ScaleOrigin origin) {
  return origin == ScaleOrigin::LSQ || origin == ScaleOrigin::PACT;
}

/// Returns the default origin of scales for further training: LSQ if activations have at most 4
/// bits or weights at most 3, otherwise EMA. Measurements: docs/recipes.md.
ScaleOrigin default_scales(int weight_bits, int activation_bits);

/// Returns the default learning rate for further training with quantizers: 0.003 if weights or
/// activations have at most 4 bits, otherwise 0.001. Measurements: docs/recipes.md.
double default_learning_rate(int weight_bits, int activation_bits);

/// Returns the factors on the learning rate of parameters whose values are small at the start
/// of further training, by name: rms / 0.03 for weights whose root mean square is below 0.03,
/// rms / 0.01 for learned scales below 0.01, and for a bias that of the weight with its name.
/// Steps of Adam are as large as the learning rate, which would carry such values away. Zero
/// points and values that are all 0 have none. Measurements: docs/recipes.md.
std::map<std::string, double> rates_of_small_values(const Model& model);

/// Returns a quantizer with the grid of `quantizer` and scales from `origin`. A `quantizer`
/// whose scales come from each batch, as those of weights do, keeps them unless they are
/// trained.
Op with_scales(const FakeQuantize& quantizer, ScaleOrigin origin);

/// Returns the default bits of the first and the last layer: 8 if weights or activations have
/// at most 3 bits and the graph has batch norms, because such networks do not learn with 2
/// bits; otherwise empty.
std::optional<int> default_ends_bits(const Graph& graph, int weight_bits, int activation_bits);

/// Returns a message about the bits of the first and the last layer, `given` or the `usual`
/// ones of `default_ends_bits`: the default that applies, or a warning of fewer bits; empty if
/// there is nothing to report.
std::string ends_note(std::optional<int> usual, std::optional<int> given);

/// Returns the default bits of activations around means, see QuantizationRecipe::mean_bits.
int default_mean_bits(int activation_bits);

/// Returns the default number of float steps, before learned scales of at most 3 bits start, in
/// a run of `steps` from random values: a third. By then weights have converged, and so have
/// the batch norm statistics that scale folded weights.
int64_t default_float_steps(int64_t steps);

/// Returns the default step from which batch norms use their running statistics: after two
/// thirds of a run of `steps`.
int64_t default_norm_freeze(int64_t steps);

/// Bits of the layers whose weights match a pattern.
struct LayerBits {
  std::string pattern = {};  ///< `*` matches any text, including none, `?` any one byte
  int weight_bits = 8;       ///< 2 to 8 for integers; up to 16 in training alone
  int activation_bits = 8;   ///< of the layer's input, 2 to 16
};

inline constexpr std::string_view cell_bits_help =
    "bits of the cell states of LSTM layers and their products; by default those of other "
    "activations; 16 bits preserve sums over many steps";

/// Bits and scales by layer.
struct QuantizationRecipe {
  int weight_bits = 8;      ///< 2 to 8 for integers; up to 16 in training alone
  int activation_bits = 8;  ///< 2 to 16
  /// Bits of weights and inputs of the first and the last layer, which are the most sensitive.
  /// If empty, `default_ends_bits`, or the bits above.
  std::optional<int> ends_bits = std::nullopt;
  std::optional<ScaleOrigin> scales =
      std::nullopt;  ///< not PerBatch; if empty, `default_scales`
  /// Narrow or Full; if empty, Narrow, because trained networks do not benefit from one more
  /// code.
  std::optional<CodeRange> weight_codes = std::nullopt;
  /// Bits of activations that are averaged, and of means that layers read: samples differ
  /// little in them. If empty, as for other activations, but 8 instead of 4 or fewer.
  std::optional<int> mean_bits = std::nullopt;
  /// Bits of all other activations, which no layer reads: operands of sums and products, and
  /// values of functions such as the gates of recurrent layers. If empty, `activation_bits`.
  std::optional<int> other_bits = std::nullopt;
  /// Bits of the cell states of LSTM layers, which add over many steps, and of their products,
  /// in networks without quantizers. If empty, as for other activations.
  std::optional<int> cell_bits = std::nullopt;
  /// Activations have symmetric codes of both signs, the only 16-bit codes in TensorFlow
  /// Lite; otherwise unsigned ones.
  bool signed_activations = false;
  /// The first entry that matches a layer's weight overrides the bits above.
  std::vector<LayerBits> layers = {};
  /// Leaves parts without an integer form, as listed by `float_parts`, in float instead of
  /// refusing the graph.
  bool float_parts = false;

  /// The settings with limits, which are options of programs. `layers` and `float_parts` are
  /// not among them: they do not ask for new quantizers.
  static constexpr auto fields() {
    using settings::setting;
    using R = QuantizationRecipe;
    constexpr settings::Limits<int64_t> bits{2, 16};
    return std::tuple{
        setting("weight_bits", &R::weight_bits, "bits of weights", bits),
        setting("activation_bits", &R::activation_bits, "bits of activations", bits),
        setting("ends_bits", &R::ends_bits,
                "bits of weights and inputs of the first and the last layer; by default 8 "
                "instead of 3 or fewer with batch norms, otherwise as for all others",
                bits)
            .called("bits of the first and the last layer"),
        setting("mean_bits", &R::mean_bits,
                "bits of activations that are averaged, and of means; by default 8 if "
                "activations have at most 4",
                bits)
            .called("bits around means"),
        setting("other_bits", &R::other_bits,
                "bits of activations that no layer reads, such as gates and operands of sums; "
                "by default those of activations",
                bits)
            .called("bits of other activations"),
        setting("cell_bits", &R::cell_bits, cell_bits_help, bits).called("bits of cell states"),
        setting("signed_activations", &R::signed_activations,
                "symmetric codes of both signs for activations, as TensorFlow Lite needs them "
                "for 16 bits"),
        setting("scales", &R::scales,
                "source of the scales of new quantizers; by default LSQ up to 4 bits of "
                "activations or 3 of weights, otherwise EMA",
                {.refused = ScaleOrigin::PerBatch}),
        setting("weight_codes", &R::weight_codes,
                "codes of the weights of new quantizers; by default Narrow, but calibrate uses "
                "Full up to 4 bits if no batch norm follows",
                {.refused = CodeRange::Unsigned})};
  }
};

/// Returns the recipe, with `default_ends_bits` of the graph if it has no bits of the first and
/// the last layer. Batch norms count, so it takes the graph before these are folded.
QuantizationRecipe with_default_ends(QuantizationRecipe recipe, const Graph& graph);

/// Returns the labels of the weights of the graph's products, in order; `LayerBits` match
/// these. Computed weights, as with folded batch norms, have the labels of their parameters.
std::vector<std::string> layer_weights(const Graph& graph);

/// Returns a copy of `graph`, which must have no quantizers, with the quantizers of the recipe:
/// symmetric per output channel for weights, with scale max|x| / ((q_max - q_min) / 2) unless
/// it is learned; for inputs of layers, unsigned symmetric if they are never negative,
/// otherwise affine; and affine wherever else integers need one; signed symmetric for all of
/// these with `signed_activations`. Throws GraphError if nothing has weights, and for nodes
/// that would have no integer form, all of which it lists, unless the recipe allows them.
/// Throws ArgumentError for bits outside 2 to 16, for unsigned weight codes, and for a pattern
/// that matches nothing; the message names the nearest weight.
Graph quantized(const Graph& graph, const QuantizationRecipe& recipe);

/// Quantizes a model and keeps its values. Quantizers are calibrated on `samples` of `dataset`,
/// so training can start. Quantizers of the model are replaced. Batch norms are kept in
/// training (`with_training_norms`); other layers are rewritten for integers
/// (`rewrite_layers`). Nodes of the result have other ids; labels find them.
Model quantized(const Model& model, const QuantizationRecipe& recipe,
                const data::Dataset& dataset, int64_t samples = default_calibration_samples,
                int threads = default_threads());

/// Returns a copy without quantizers and without states that only they used.
Graph without_quantizers(const Graph& graph);

/// Returns a copy of the model that is ready for new quantizers: without quantizers, and with
/// layers rewritten for integers (`rewrite_layers`).
Model plain_model(const Model& model);

/// Returns the model, with a loss for training on `dataset` added if it has none. If the target
/// holds classes (`holds_classes`), the loss is the cross-entropy of the answer, the mean over
/// samples and positions; a final Softmax is removed from the answer, and a single number is
/// the logit of class 1 in a two-class problem. Otherwise it is the mean squared error relative
/// to the target, or to the input if there is no target. For several answers it is the sum of
/// these, one for each target of the data in order, and the inputs are named like the columns.
/// Throws GraphError if answers and targets do not match.
Model with_loss(Model model, const data::Dataset& dataset);

}  // namespace qtape
