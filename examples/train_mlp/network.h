// The network that train_mlp trains, and its settings.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <vector>

#include "qtape/data/generated/digits.h"
#include "qtape/examples/classifier/task.h"

namespace qtape::examples {

/// Structure of the network. fc1, fc2, ... are layers with narrow weight quantizers per output
/// channel, and unsigned input quantizers per tensor.
enum class Architecture : uint8_t {
  /// Each hidden layer is Relu(fc(h)).
  MLP,
  /// Hidden layers after the first are Relu(Qa(fc(h)) + Qb(skip)). The skip is h, or, if the
  /// widths differ, a layer `fc2.skip` of the same quantized input. Qa is signed; Qb is signed
  /// unless the skip is h. They are labelled `fc2.branch` and `fc2.skip`.
  Residual,
  /// The first hidden layer is split in two: `fc1.upper` reads the first half of the quantized
  /// pixels, `fc1.lower` the rest. Their activations are quantized, unsigned, as
  /// `fc1.upper.output` and `fc1.lower.output`, then concatenated.
  Concat
};

struct MlpSettings {
  static constexpr std::string_view program = "train_mlp";
  static constexpr std::string_view about =
      "Trains a quantization-aware ReLU network on digits.";
  static constexpr std::string_view data_kind = "digits";

  Architecture model = Architecture::MLP;
  std::vector<int64_t> layers = {256, 128};
  data::DigitKind digits = data::DigitKind::Plain;
  Recipe recipe = {};

  static constexpr auto fields() {
    using S = MlpSettings;
    return std::tuple{
        setting(
            "model", &S::model,
            "structure of the layers: sequential, with skip connections, or with a split first "
            "layer"),
        setting("layers", &S::layers, "widths of the hidden layers", {1, 65536})
            .called("layer width")
            .at_most(64),
        setting("digits", &S::digits, "difficulty of generated digits")};
  }
  data::Split generate() const { return data::example_digits(recipe.samples, digits); }
  bool operator==(const MlpSettings&) const = default;
};

/// Throws ArgumentError, which names the setting, for an invalid setting: Residual needs 2
/// hidden layers, Concat a first one of width 2 or more.
void validate_network(const MlpSettings& settings);

/// Returns a ReLU network with the settings' model and layers, for images of `dataset`'s size.
/// Throws ArgumentError if Concat has fewer than 2 pixels to split.
Graph make_network(const MlpSettings& settings, const data::Dataset& dataset);

}  // namespace qtape::examples

namespace qtape {
template <>
inline constexpr auto enum_names<examples::Architecture> =
    std::array<std::string_view, 3>{"MLP", "Residual", "Concat"};
}  // namespace qtape
