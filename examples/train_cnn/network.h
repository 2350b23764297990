// The networks that train_cnn trains, and its settings.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "qtape/data/generated/digits.h"
#include "qtape/examples/classifier/task.h"

namespace qtape::examples {

/// Convolutional networks that are common in embedded applications. All layers except those of
/// LeNet have a folded batch norm.
enum class CnnModel : uint8_t {
  /// LeNet-5: 5x5 convolutions with 6 and 16 channels, each followed by 2x2 max-pooling, then
  /// dense layers of 120, 84 and the number of classes. LeCun et al. 1998, with ReLU and with
  /// full connections between channels.
  LeNet,
  /// A convolution of stride 2, then four depthwise separable ones, all with 64 channels,
  /// global average pooling and a dense layer. Zhang et al. 2017, as in MLPerf Tiny.
  DSCNN,
  /// A convolution, then three residual blocks of 16, 32 and 64 channels, global average
  /// pooling and a dense layer. As in MLPerf Tiny.
  ResNet8,
  /// A convolution, then five inverted residual blocks with ReLU6 and linear bottlenecks, a 1x1
  /// convolution, global average pooling and a dense layer. Sandler et al. 2018, with a width
  /// for small images.
  MobileNet
};

struct CnnSettings {
  static constexpr std::string_view program = "train_cnn";
  static constexpr std::string_view about =
      "Trains a quantization-aware convolutional network on digits.";
  static constexpr std::string_view data_kind = "digits";

  CnnModel model = CnnModel::LeNet;
  int64_t width = 100;
  data::DigitKind digits = data::DigitKind::Plain;
  Recipe recipe = {};

  static constexpr auto fields() {
    using S = CnnSettings;
    return std::tuple{setting("model", &S::model, "the network"),
                      setting("width", &S::width,
                              "percent of the usual channels, at least one channel", {1, 1000}),
                      setting("digits", &S::digits, "difficulty of generated digits")};
  }
  data::Split generate() const { return data::example_digits(recipe.samples, digits); }
  bool operator==(const CnnSettings&) const = default;
};

inline void validate_network(const CnnSettings&) {}

/// Returns the network for images of `dataset`'s size. Throws GraphError for images that are
/// too small.
Graph make_network(const CnnSettings& settings, const data::Dataset& dataset);

}  // namespace qtape::examples

namespace qtape {
template <>
inline constexpr auto enum_names<examples::CnnModel> =
    std::array<std::string_view, 4>{"LeNet", "DSCNN", "ResNet8", "MobileNet"};
}  // namespace qtape
