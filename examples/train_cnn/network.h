// The networks that train_cnn trains, and its settings.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "qtape/examples/classifier/task.h"
#include "qtape/examples/data/digits.h"

namespace qtape::examples {

/// Convolutional networks that embedded users ship. Layers but LeNet's have a batch norm that
/// is folded into them.
enum class CnnModel : uint8_t {
  /// LeNet-5: convolutions 5x5 of 6 and 16 channels, each with a maximum over 2x2, then layers
  /// of 120, 84 and the classes. LeCun et al. 1998 with ReLU and without gaps between channels.
  LeNet,
  /// A convolution of stride 2, then four depthwise separable ones, all of 64 channels, the
  /// mean
  /// of the image and a layer. Zhang et al. 2017, as MLPerf Tiny has it.
  DSCNN,
  /// Three residual blocks of 16, 32 and 64 channels after a convolution, the mean of the image
  /// and a layer. As MLPerf Tiny has it.
  ResNet8,
  /// Five inverted residual blocks with ReLU6 and linear bottlenecks after a convolution, a
  /// convolution 1x1, the mean of the image and a layer. Sandler et al. 2018, at the width of
  /// small images.
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
    return std::tuple{
        setting("model", &S::model, "the network"),
        setting("width", &S::width, "percent of its usual channels, at least one for each",
                {1, 1000}),
        setting("digits", &S::digits, "how hard generated digits are to read")};
  }
  data::Split generate() const { return data::example_digits(recipe.samples, digits); }
  bool operator==(const CnnSettings&) const = default;
};

inline void validate_network(const CnnSettings&) {}

/// The network on images of `dataset`'s size. Throws GraphError for images that are too small
/// for it.
Graph make_network(const CnnSettings& settings, const data::Dataset& dataset);

}  // namespace qtape::examples

namespace qtape {
template <>
inline constexpr auto enum_names<examples::CnnModel> =
    std::array<std::string_view, 4>{"LeNet", "DSCNN", "ResNet8", "MobileNet"};
}  // namespace qtape
