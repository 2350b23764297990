#include "qtape/examples/train_cnn/network.h"

#include <algorithm>

#include "qtape/examples/classifier/builder.h"

namespace qtape::examples {
namespace {

/// Builds one of the networks on images [n, h, w, 1].
class Cnn {
 public:
  Cnn(Graph& graph, const CnnSettings& settings, int64_t classes)
      : graph_(graph),
        build_(graph, settings.recipe),
        width_(settings.width),
        classes_(classes) {}

  NodeId lenet(NodeId x) {
    x = pooled_conv(x, 6, Padding::Same, "conv1");
    x = pooled_conv(x, 16, Padding::Valid, "conv2");
    x = graph_.add(Flatten{}, {x});
    x = build_.relu(linear(graph_, x, build_.layer(wide(120), "fc1", false)));
    x = dense(x, wide(84), "fc2");
    return dense(build_.relu(x), classes_, "fc3");
  }

  NodeId dscnn(NodeId x) {
    x = build_.relu(build_.conv(x, wide(64), 5, 2, "conv1"));
    for (int i = 2; i <= 5; ++i) {
      const std::string label = fmt::format("conv{}", i);
      x = build_.relu(build_.depthwise(x, 3, 1, label + ".depthwise"));
      x = build_.relu(build_.conv(x, wide(64), 1, 1, label + ".pointwise"));
    }
    return build_.head(x, classes_, "fc");
  }

  NodeId resnet8(NodeId x) {
    x = build_.relu(build_.conv(x, wide(16), 3, 1, "conv1"));
    int64_t stride = 1;
    for (const int64_t usual : {16, 32, 64}) {
      const std::string label = fmt::format("block{}", stride == 1 ? 1 : usual / 16);
      x = residual_block(x, wide(usual), stride, label);
      stride = 2;
    }
    return build_.head(x, classes_, "fc");
  }

  NodeId mobilenet(NodeId x) {
    x = graph_.add(Relu6{}, {build_.conv(x, wide(16), 3, 2, "conv1")});
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
    x = graph_.add(Relu6{}, {build_.conv(x, wide(128), 1, 1, "conv2", range)});
    return build_.head(x, classes_, "fc");
  }

 private:
  int64_t wide(int64_t usual) const { return std::max<int64_t>(1, usual * width_ / 100); }

  NodeId dense(NodeId x, int64_t out, const std::string& label) {
    return linear(graph_, build_.quantize(x, CodeRange::Unsigned, label + ".input"),
                  build_.layer(out, label, false));
  }

  /// A convolution 5x5 and the maximum of each 2x2, in codes.
  NodeId pooled_conv(NodeId x, int64_t out, Padding padding, const std::string& label) {
    x = build_.quantize(x, CodeRange::Unsigned, label + ".input");
    x = conv2d(graph_, x, {.padding = padding}, {5, 5}, build_.layer(wide(out), label, false));
    x = build_.quantize(build_.relu(x), CodeRange::Unsigned, label + ".output");
    return graph_.add(MaxPool{.kernel = {2, 2}, .stride = {2, 2}}, {x});
  }

  /// Relu(conv(Relu(conv(x))) + skip); the skip is x, or a convolution 1x1 of it.
  NodeId residual_block(NodeId x, int64_t out, int64_t stride, const std::string& label) {
    const bool direct = stride == 1 && build_.channels(x) == out;
    x = build_.quantize(x, CodeRange::Unsigned, label + ".input");
    NodeId branch = build_.relu(build_.conv(x, out, 3, stride, label + ".conv1"));
    branch = build_.conv(branch, out, 3, 1, label + ".conv2");
    const NodeId skip = direct ? x : build_.conv(x, out, 1, stride, label + ".conv3");
    return build_.relu(
        build_.residual(branch, skip, direct ? CodeRange::Unsigned : CodeRange::Full, label));
  }

  /// Wider, a filter for each channel, narrower; and x itself where the shapes agree.
  NodeId inverted_residual(NodeId x, CodeRange range, int64_t expansion, int64_t out,
                           int64_t stride, const std::string& label) {
    const bool direct = stride == 1 && build_.channels(x) == out;
    x = build_.quantize(x, range, label + ".input");
    NodeId y = x;
    CodeRange inner = range;
    if (expansion > 1) {
      y = graph_.add(Relu6{}, {build_.conv(y, expansion * build_.channels(x), 1, 1,
                                           label + ".expand", range)});
      inner = CodeRange::Unsigned;
    }
    y = graph_.add(Relu6{}, {build_.depthwise(y, 3, stride, label + ".depthwise", inner)});
    y = build_.conv(y, out, 1, 1, label + ".project");
    return direct ? build_.residual(y, x, range, label) : y;
  }

  Graph& graph_;
  Builder build_;
  int64_t width_;
  int64_t classes_;
};

}  // namespace

Network make_network(const CnnSettings& settings, const data::Dataset& dataset) {
  Network network = start_network(settings.recipe, dataset);
  Cnn cnn(network.graph, settings, dataset.classes);
  const NodeId x =
      network.graph.add(Reshape{.shape = {-1, dataset.rows, dataset.cols, 1}}, {network.x});
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
  finish_network(network, logits());
  return network;
}

}  // namespace qtape::examples
