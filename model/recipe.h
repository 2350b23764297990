// Recipes: how a float network is quantized for training, layer by layer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qtape/model/quantization.h"

namespace qtape {

/// Where scales come from.
enum class RecipeScales : uint8_t {
  Observed,  ///< weights from their largest, activations by running averages of their range
  Learned    ///< both trained with everything else: FakeQuantizeLSQ
};
template <>
inline constexpr auto enum_names<RecipeScales> =
    std::array<std::string_view, 2>{"Observed", "Learned"};

/// Where scales come from unless a recipe says: learned where weights or activations have at
/// most 3 bits.
RecipeScales usual_scales(int weight_bits, int activation_bits);

/// Bits of the first and the last layer unless a recipe says: 8 in the place of 3 or fewer
/// where the graph has batch norms, as with 2 bits such networks do not learn; else none of
/// their own.
std::optional<int> usual_ends_bits(const Graph& graph, int weight_bits, int activation_bits);

/// Bits of activations around means unless a recipe says, see QuantizationRecipe::mean_bits.
int usual_mean_bits(int activation_bits);

/// Steps of a run of `steps` from random values that are trained in float before learned scales
/// of at most 3 bits start: a third. By then weights and the statistics of batch norms, by
/// which folded weights are scaled, have settled.
int64_t usual_float_steps(int64_t steps);

/// Bits of the layers whose weights match a pattern.
struct LayerBits {
  std::string pattern = {};  ///< `*` is any text, also none, `?` any one byte
  int weight_bits = 8;       ///< 2 to 16
  int activation_bits = 8;   ///< of the layer's input, 2 to 16
};

/// Bits and scales by layer.
struct QuantizationRecipe {
  int weight_bits = 8;      ///< 2 to 16
  int activation_bits = 8;  ///< 2 to 16
  /// Weights and inputs of the first and the last layer, which lose most by few bits; without
  /// it, `usual_ends_bits`, or as all others.
  std::optional<int> ends_bits = std::nullopt;
  std::optional<RecipeScales> scales = std::nullopt;  ///< without it, `usual_scales`
  /// Narrow or Full; without it, Narrow: trained networks gain nothing by one code more.
  std::optional<CodeRange> weight_codes = std::nullopt;
  /// Bits of activations that a mean is taken of, and of means that layers read: samples differ
  /// little in them. Without it, as of all others, but 8 in the place of 3 or fewer.
  std::optional<int> mean_bits = std::nullopt;
  /// The first that matches a layer's weight comes before the bits above.
  std::vector<LayerBits> layers = {};
  /// Leave in floats what has no integers, as `float_parts` lists it, instead of refusing the
  /// graph.
  bool float_parts = false;
};

/// Labels of the weights of the graph's products, in order: what `LayerBits` match. Weights
/// that are computed, as with folded batch norms, have those of their parameters.
std::vector<std::string> layer_weights(const Graph& graph);

/// Whether no element of the value can be negative, by the ops that lead to it.
bool never_negative(const Graph& graph, NodeId id);

/// A copy of `graph`, which has no quantizers, with those of the recipe: weights symmetric by
/// output channel, of scale max|x| / ((q_max - q_min) / 2) where it is not learned; inputs of
/// layers without a sign where they are never negative, else affine; and affine ones wherever
/// else integers need them. Throws GraphError where nothing has weights and, unless the recipe
/// allows them, for nodes that would have no integers, all of which it lists; ArgumentError for
/// bits outside 2 to 16, weight codes without a sign, and a pattern that matches nothing, which
/// names the nearest weight.
Graph quantized(const Graph& graph, const QuantizationRecipe& recipe);

/// The same of a model, whose values it takes over; quantizers are calibrated on `samples` of
/// `dataset`, after which training may begin. A model that has quantizers gets new ones, and
/// batch norms become part of the products before them where `fold_norms` can do that.
Model quantized(const Model& model, const QuantizationRecipe& recipe,
                const data::Dataset& dataset, int64_t samples = usual_calibration_samples,
                int threads = default_threads());

/// A copy without quantizers. States that only they held are gone.
Graph without_quantizers(const Graph& graph);

/// A copy of the model that quantizers can be inserted into: without those it has, and with
/// batch norms folded where `fold_norms` can do that.
Model plain_model(const Model& model);

/// The model with what it needs to be trained on `dataset`, where it has no loss: the
/// cross-entropy of its answer, or of what a Softmax at its end is taken of, which becomes the
/// answer, where the data have labels; else the mean squared difference from the target, or
/// from the input where there is no target. Of several answers the sum of these, one for each
/// target of the data in their order, whose inputs are called as the columns. Throws GraphError
/// where these do not fit.
Model with_loss(Model model, const data::Dataset& dataset);

}  // namespace qtape
