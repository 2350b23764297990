// The network that train_keywords trains, and its settings.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "qtape/data/generated/tones.h"
#include "qtape/examples/classifier/task.h"

namespace qtape::examples {

/// Networks on frames of log-mel bands.
enum class KeywordModel : uint8_t {
  /// A convolution of stride 2 over time, then depthwise separable ones, average pooling over
  /// time and a dense layer. All except the last have a folded batch norm.
  DSCNN
};

struct KeywordSettings {
  static constexpr std::string_view program = "train_keywords";
  static constexpr std::string_view about =
      "Trains a quantization-aware convolutional network over time on generated keywords.";
  static constexpr std::string_view data_kind = "keywords";

  KeywordModel model = KeywordModel::DSCNN;
  int64_t channels = 64;
  int64_t blocks = 4;
  TrainingSettings recipe = {.samples = 4000, .epochs = 20};

  static constexpr auto fields() {
    using S = KeywordSettings;
    return std::tuple{setting("model", &S::model, "the network"),
                      setting("channels", &S::channels, "channels of each layer", {1, 4096}),
                      setting("blocks", &S::blocks, "depthwise separable layers", {0, 64})};
  }
  data::Split generate() const { return data::example_tones(recipe.samples); }
  bool operator==(const KeywordSettings&) const = default;
};

inline void validate_network(const KeywordSettings&) {}

/// Returns the network for features of `dataset`'s size: rows are frames, columns bands.
Graph make_network(const KeywordSettings& settings, const data::Dataset& dataset);

}  // namespace qtape::examples

namespace qtape {
template <>
inline constexpr auto enum_names<examples::KeywordModel> =
    std::array<std::string_view, 1>{"DSCNN"};
}  // namespace qtape
