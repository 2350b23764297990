#include "qtape/examples/train_cnn/network.h"

#include <algorithm>

#include "qtape/examples/classifier/builder.h"

namespace qtape::examples {
namespace {

/// Builds one of the networks for images [h, w, 1].
class Cnn {
 public:
  Cnn(const CnnSettings& settings, int64_t classes)
      : build_(settings.recipe), width_(settings.width), classes_(classes) {}

  Value lenet(Value x) const {
    x = pooled_conv(x, 6, Padding::Same, "conv1");
    x = flatten(pooled_conv(x, 16, Padding::Valid, "conv2"));
    x = relu(linear(x, wide(120), build_.layer("fc1", false)));
    return dense(relu(dense(x, wide(84), "fc2")), classes_, "fc3");
  }

  Value dscnn(Value x) const {
    x = relu(build_.conv(x, wide(64), 5, 2, "conv1"));
    for (int i = 2; i <= 5; ++i) {
      const std::string label = fmt::format("conv{}", i);
      x = relu(build_.depthwise(x, 3, 1, label + ".depthwise"));
      x = relu(build_.conv(x, wide(64), 1, 1, label + ".pointwise"));
    }
    return build_.head(x, classes_, "fc");
  }

  Value resnet8(Value x) const {
    x = relu(build_.conv(x, wide(16), 3, 1, "conv1"));
    int64_t stride = 1;
    for (const int64_t usual : {16, 32, 64}) {
      const std::string label = fmt::format("block{}", stride == 1 ? 1 : usual / 16);
      x = residual_block(x, wide(usual), stride, label);
      stride = 2;
    }
    return build_.head(x, classes_, "fc");
  }

  Value mobilenet(Value x) const {
    x = relu6(build_.conv(x, wide(16), 3, 2, "conv1"));
    CodeRange range = CodeRange::Unsigned;
    struct Block {
      int64_t expansion, out, stride;
    };
    int number = 1;
    for (const Block& block :
         {Block{1, 16, 1}, {4, 24, 2}, {4, 24, 1}, {4, 32, 2}, {4, 32, 1}}) {
      x = inverted_residual(x, range, block.expansion, wide(block.out), block.stride,
                            fmt::format("block{}", number++));
      range = CodeRange::Full;
    }
    x = relu6(build_.conv(x, wide(128), 1, 1, "conv2", range));
    return build_.head(x, classes_, "fc");
  }

 private:
  int64_t wide(int64_t usual) const { return std::max<int64_t>(1, usual * width_ / 100); }

  Value dense(const Value& x, int64_t out, const std::string& label) const {
    return linear(build_.quantize(x, CodeRange::Unsigned, label + ".input"), out,
                  build_.layer(label, false));
  }

  /// Adds a 5x5 convolution and 2x2 max-pooling on codes.
  Value pooled_conv(const Value& x, int64_t out, Padding padding,
                    const std::string& label) const {
    const Value y = conv2d(build_.quantize(x, CodeRange::Unsigned, label + ".input"), wide(out),
                           {5, 5}, build_.layer(label, false), {.padding = padding});
    return max_pool(build_.quantize(relu(y), CodeRange::Unsigned, label + ".output"), {2, 2});
  }

  /// Adds Relu(conv(Relu(conv(x))) + skip); the skip is x, or a 1x1 convolution of it.
  Value residual_block(const Value& h, int64_t out, int64_t stride,
                       const std::string& label) const {
    const bool direct = stride == 1 && h.shape()[-1] == out;
    const Value x = build_.quantize(h, CodeRange::Unsigned, label + ".input");
    const Value y = relu(build_.conv(x, out, 3, stride, label + ".conv1"));
    const Value branch = build_.conv(y, out, 3, 1, label + ".conv2");
    const Value skip = direct ? x : build_.conv(x, out, 1, stride, label + ".conv3");
    return relu(
        build_.residual(branch, skip, direct ? CodeRange::Unsigned : CodeRange::Full, label));
  }

  /// Adds an expansion, a depthwise convolution and a projection; plus x itself if the shapes
  /// agree.
  Value inverted_residual(const Value& h, CodeRange range, int64_t expansion, int64_t out,
                          int64_t stride, const std::string& label) const {
    const int64_t channels = h.shape()[-1];
    const Value x = build_.quantize(h, range, label + ".input");
    Value y = x;
    CodeRange inner = range;
    if (expansion > 1) {
      y = relu6(build_.conv(y, expansion * channels, 1, 1, label + ".expand", range));
      inner = CodeRange::Unsigned;
    }
    y = relu6(build_.depthwise(y, 3, stride, label + ".depthwise", inner));
    y = build_.conv(y, out, 1, 1, label + ".project");
    const bool direct = stride == 1 && channels == out;
    return direct ? build_.residual(y, x, range, label) : y;
  }

  Builder build_;
  int64_t width_;
  int64_t classes_;
};

}  // namespace

Graph make_network(const CnnSettings& settings, const data::Dataset& dataset) {
  const Shape& image = dataset.columns()[0].sample.shape;
  Network network;
  const Value x = reshape(network.input("x", {image.elements()}), {image[0], image[1], 1});
  const Cnn cnn(settings, dataset.classes());
  const auto logits = [&] {
    switch (settings.model) {
      case CnnModel::DSCNN:
        return cnn.dscnn(x);
      case CnnModel::ResNet8:
        return cnn.resnet8(x);
      case CnnModel::MobileNet:
        return cnn.mobilenet(x);
      case CnnModel::LeNet:
        break;
    }
    return cnn.lenet(x);
  };
  return classifier(logits(), settings.recipe);
}

}  // namespace qtape::examples
