// Random programs that TensorFlow Lite Micro computes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "qtape/tests/tflite/tflite_programs.h"
#include "qtape/tflite/activations.h"
#include "qtape/tflite/export.h"

namespace qtape::test::tflite_programs {

/// Codes of a random program.
enum class Codes {
  Int8,         ///< of activations and weights
  Int4Weights,  ///< INT8 and weights of 4 bits
  Int16         ///< of activations, some of them INT8
};

/// Adds random layers to a program.
class RandomLayers {
 public:
  RandomLayers(uint64_t seed, Codes codes)
      : wide_(codes == Codes::Int16),
        net_(seed,
             {1, 5 + static_cast<int64_t>(seed % 7), 6, 1 + static_cast<int64_t>(seed % 5)},
             grid_of(0.01 + 0.001 * static_cast<double>(seed % 17),
                     static_cast<int32_t>(seed % 255) - 128)) {
    if (codes == Codes::Int4Weights) net_.weight_bits = 4;
  }

  IntegerProgram finished(int64_t layers) {
    for (int64_t i = 0; i < layers; ++i) add();
    if (below(2) == 0) add_mean();
    net_.flatten(label("flat"));
    const bool rounded = below(2) == 0;
    net_.linear(label("linear"), 1 + below(9), rounded, random_grid());
    if (below(2) == 0 && net_.value().type.dtype == DType::S8)
      net_.add(integer::Softmax{.beta = 0.5 + 0.25 * double(below(4))}, label("softmax"));
    return net_.finished();
  }

 private:
  int64_t below(int64_t end) { return net_.numbers.below(end); }
  std::string label(const std::string& name) { return name + std::to_string(++labels_); }
  const Shape& shape() const { return net_.value().type.shape; }

  CodeGrid grid_of(double scale, int32_t zero_point) const {
    return wide_ ? wide_grid(scale / 256) : grid(scale, zero_point);
  }
  /// A grid whose scale suits sums of layers, limited by a random activation.
  CodeGrid random_grid() {
    const double scale = 0.02 + 0.01 * static_cast<double>(below(60));
    const CodeGrid plain = grid_of(scale, static_cast<int32_t>(below(256)) - 128);
    return tflite::limited(plain, static_cast<tflite::Activation>(below(4)));
  }

  void add() {
    switch (below(9)) {
      case 0:
        return add_conv(false);
      case 1:
        return add_conv(true);
      case 2:
        return add_sum();
      case 3:
        return add_product();
      case 4:
        return add_pool();
      case 5:
        return add_border();
      case 6:
        return add_join();
      case 7:
        // Programs with 16-bit codes change between both.
        if (net_.value().type.dtype == DType::S16 || switched_) {
          wide_ = !wide_;
          switched_ = true;
        }
        net_.add(integer::Requantize{tflite::limited(random_grid(), tflite::Activation::None)},
                 label("rescaled"));
        return;
      default:
        return add_limit();
    }
  }

  Padding padding() { return static_cast<Padding>(below(3)); }

  void add_conv(bool depthwise) {
    integer::Conv op;
    const int64_t channels = shape()[-1];
    op.taps = Shape{1 + below(std::min<int64_t>(3, shape()[1])),
                    1 + below(std::min<int64_t>(3, shape()[2]))};
    op.padding = padding();
    if (op.padding == Padding::Explicit) {
      op.pads_begin = Shape{below(3), below(3)};
      op.pads_end = Shape{below(3), below(3)};
    }
    op.stride = Shape{1 + below(2), 1 + below(2)};
    const bool fits = 2 * (op.taps[0] - 1) < shape()[1] && 2 * (op.taps[1] - 1) < shape()[2];
    if (fits && op.stride == Shape{1, 1}) op.dilation = Shape{1 + below(2), 1 + below(2)};
    const int64_t outputs = depthwise ? channels * (1 + below(2)) : 1 + below(8);
    op.groups = depthwise ? channels : 1;
    const Shape weights = {outputs, op.taps.elements() * channels / op.groups};
    const int bits = net_.weight_bits;
    op.weights = pack_weights(net_.numbers.codes(weights.elements(), bits), weights, bits,
                              net_.numbers.scales(below(4) == 0 ? 1 : outputs),
                              net_.numbers.biases(below(5) == 0 ? 0 : outputs),
                              op.factors(net_.value()));
    net_.add(std::move(op), label("sums"));
    net_.add(integer::Requantize{random_grid()}, label("conv"));
  }

  /// Adds codes of another grid, or a constant for each channel.
  void add_sum() {
    const ProgramNodeId a = net_.last;
    net_.add(integer::Requantize{tflite::limited(random_grid(), tflite::Activation::None)},
             label("other"));
    const ProgramNodeId b = below(2) == 0 ? constant() : net_.last;
    net_.last = net_.program.add(integer::Add{random_grid()}, {a, b}, label("sum"));
  }
  void add_product() {
    const ProgramNodeId b = below(2) == 0 ? constant() : net_.last;
    net_.last = net_.program.add(integer::Mul{random_grid()}, {net_.last, b}, label("product"));
  }
  ProgramNodeId constant() {
    const Shape at = {1, 1, 1, shape()[-1]};
    const CodeGrid to = tflite::limited(random_grid(), tflite::Activation::None);
    const std::vector<int8_t> codes = net_.numbers.codes(at.elements());
    const std::vector<int16_t> wide(codes.begin(), codes.end());
    const integer::Constant op{
        to, wide_ ? Tensor::of<int16_t>(at, wide) : Tensor::of<int8_t>(at, codes)};
    return net_.program.add(op, {}, label("constant"));
  }

  template <class P>
  void add_windows(P op) {
    op.kernel = Shape{1 + below(std::min<int64_t>(4, shape()[1])),
                      1 + below(std::min<int64_t>(4, shape()[2]))};
    op.stride = Shape{1 + below(2), 1 + below(2)};
    op.padding = below(2) == 0 ? Padding::Same : Padding::Valid;
    net_.add(std::move(op), label("pool"));
  }
  void add_pool() {
    if (below(2) == 0) return add_windows(integer::MeanPool{});
    if (below(2) == 0 && net_.value().type.dtype == DType::S8) return add_average();
    if (net_.value().low < net_.value().zero_point || below(2) == 0) {
      return add_windows(integer::Structure<MaxPool>{});
    }
    // No code is below that of the border.
    MaxPool op{.kernel = {2 + below(2), 2 + below(2)}, .stride = {1 + below(2), 1 + below(2)}};
    op.padding = Padding::Explicit;
    op.pads_begin = Shape{below(op.kernel[0]), below(op.kernel[1])};
    op.pads_end = Shape{1, 1};
    net_.add(integer::Structure<MaxPool>{op}, label("pool"));
  }
  /// Adds a mean that is requantized, of 2 or 4 codes.
  void add_average() {
    integer::AvgPool op;
    op.kernel = Shape{1 + below(std::min<int64_t>(2, shape()[1])),
                      1 + below(std::min<int64_t>(2, shape()[2]))};
    op.stride = Shape{1 + below(2), 1 + below(2)};
    op.padding = below(2) == 0 ? Padding::Same : Padding::Valid;
    net_.add(std::move(op), label("sums"));
    net_.add(integer::Requantize{random_grid()}, label("average"));
  }

  void add_border() {
    if (shape().elements() > 2000) return;
    net_.add(integer::Pad{{0, below(3), below(3), below(2)},
                          {0, below(3), below(3), below(2)},
                          net_.value().zero_point},
             label("padded"));
  }
  void add_join() {
    if (shape().elements() > 2000) return;
    integer::Concat op;
    op.axis = static_cast<int>(1 + below(3));
    op.count = 2;
    net_.last = net_.program.add(op, {net_.last, net_.last}, label("joined"));
  }
  void add_mean() {
    integer::Sum op;
    op.axes = {2};
    if (below(2) == 0) op.axes = {1, 2};
    op.mean = true;
    op.keep_dims = below(2) == 0;
    net_.add(std::move(op), label("sums"));
    net_.add(integer::Requantize{tflite::limited(random_grid(), tflite::Activation::None)},
             label("mean"));
  }
  void add_limit() {
    const IntegerValue& x = net_.value();
    CodeGrid to = grid(x.scales[0], x.zero_point);
    to.dtype = x.type.dtype;
    to = tflite::limited(to,
                         below(2) == 0 ? tflite::Activation::Relu : tflite::Activation::Relu6);
    net_.add(integer::Requantize{to}, label("limited"));
  }

  bool wide_;  // the next grid is of 16 bits
  bool switched_ = false;
  Layers net_;
  int64_t labels_ = 0;
};

inline IntegerProgram random_program(uint64_t seed, Codes codes = Codes::Int8) {
  return RandomLayers(seed, codes).finished(1 + static_cast<int64_t>(seed % 8));
}

/// Returns the files of all layers and of random programs with each kind of codes.
inline std::vector<std::string> written_programs() {
  std::vector<std::string> all = {to_tflite(all_layers())};
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    all.push_back(to_tflite(random_program(seed, static_cast<Codes>(seed % 3))));
  }
  return all;
}

}  // namespace qtape::test::tflite_programs
