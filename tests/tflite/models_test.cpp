// Models in floats of TensorFlow Lite, by operator: their values, and files that are refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/tape.h"
#include "qtape/tests/tflite/tflite_builder.h"

using namespace qtape;
using namespace qtape::tflite;
using test::TfliteBuilder;

namespace {

using Numbers = std::vector<float>;
using Extents = std::vector<int32_t>;
using Texts = std::vector<std::string>;

/// Returns output 0 for the values of inputs, in order.
Numbers answer(const SavedModel& model, const std::vector<Numbers>& inputs) {
  Tape tape(model.graph, model.parameters, {});
  size_t k = 0;
  for (const Node& node : model.graph.nodes()) {
    if (!std::holds_alternative<qtape::Input>(node.op)) continue;
    const auto x = tape.input<float>(node.label);
    REQUIRE(x.size() == inputs[k].size());
    std::ranges::copy(inputs[k++], x.begin());
  }
  tape.forward(mode::eval);
  const auto y = tape.value<float>(model.graph.outputs()[0]);
  return {y.begin(), y.end()};
}

/// Returns y of one operator that reads x.
Numbers of_one(Builtin op, const Extents& shape, const Numbers& x, const Extents& to,
               const Options& options = {}, const std::vector<Extents>& integers = {}) {
  TfliteBuilder b;
  std::vector<int32_t> inputs = {b.floats("x", shape)};
  b.input(inputs[0]);
  for (const Extents& each : integers) {
    inputs.push_back(b.integers("", {static_cast<int32_t>(each.size())}, each));
  }
  const int32_t y = b.floats("y", to);
  b.op(op, inputs, y, options);
  b.output(y);
  return answer(b.imported(), {x});
}

/// Returns y of an operator on two inputs, or on x and a constant.
Numbers of_two(Builtin op, const Numbers& x, const Numbers& other, bool constant,
               const Options& options = {}, bool first = true) {
  TfliteBuilder b;
  const int32_t a = b.floats("x", {1, 2, 2});
  b.input(a);
  const auto n = static_cast<int32_t>(other.size());
  const int32_t c = constant ? b.constant("c", {n}, other) : b.floats("c", {1, 2, 2});
  if (!constant) b.input(c);
  const int32_t y = b.floats("y", {1, 2, 2});
  b.op(op, first ? std::vector{a, c} : std::vector{c, a}, y, options);
  b.output(y);
  return answer(b.imported(),
                constant ? std::vector<Numbers>{x} : std::vector<Numbers>{x, other});
}

TfliteBuilder relu(const Extents& shape) {
  TfliteBuilder b;
  const int32_t x = b.input(b.floats("x", shape)), y = b.output(b.floats("y", shape));
  b.op(Builtin::Relu, {x}, y);
  return b;
}

}  // namespace

TEST_CASE("tflite models: convolutions have SAME padding, strides, and channels last") {
  // x [1, 3, 3, 1] by filters [2, 2, 2, 1] at stride 2: windows from (0, 0) to (2, 2).
  TfliteBuilder b;
  const int32_t x = b.input(b.floats("x", {1, 3, 3, 1})),
                y = b.output(b.floats("y", {1, 2, 2, 2}));
  const int32_t w = b.constant("w", {2, 2, 2, 1}, {1, 2, 3, 4, -1, 0, 0, 1});
  const int32_t c = b.constant("b", {2}, {0.5f, -0.5f});
  b.op(Builtin::Conv2d, {x, w, c}, y, Conv2dOptions{.stride_w = 2, .stride_h = 2});
  const SavedModel model = b.imported();
  CHECK(answer(model, {{1, 2, 3, 4, 5, 6, 7, 8, 9}}) ==
        Numbers{37.5f, 3.5f, 21.5f, -3.5f, 23.5f, -7.5f, 9.5f, -9.5f});
  CHECK(model.parameters.get("w").type == TensorType{DType::F32, {2, 2, 2, 1}});
  CHECK(model.parameters.get("b") == Tensor::of<float>({2}, Numbers{0.5f, -0.5f}));
  CHECK(model.graph[model.graph.at("x")].type.shape == Shape{1, 3, 3, 1});
  CHECK(model.graph.with_batch(3)[model.graph.at("y")].type.shape == Shape{3, 2, 2, 2});
}

TEST_CASE("tflite models: depthwise filters are stored by taps") {
  // Output o reads channel o / 2.
  TfliteBuilder b;
  const int32_t x = b.input(b.floats("x", {1, 1, 2, 2})),
                y = b.output(b.floats("y", {1, 1, 1, 4}));
  const int32_t w = b.constant("w", {1, 1, 2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});
  const DepthwiseConv2dOptions options{.padding = PaddingType::Valid,
                                       .stride_w = 1,
                                       .stride_h = 1,
                                       .depth_multiplier = 2,
                                       .activation = Activation::Relu};
  b.op(Builtin::DepthwiseConv2d, {x, w, -1}, y, options);
  CHECK(answer(b.imported(), {{1, -1, 2, 3}}) == Numbers{21, 42, 87, 116});
  b.model().operators[0].version = 99;
  CHECK(b.error() == "operators[0] DEPTHWISE_CONV_2D 'y': has version 99, expected 1 to 7");
}

TEST_CASE("tflite models: fully connected layers flatten their operand and are limited") {
  TfliteBuilder b;
  const int32_t x = b.input(b.floats("x", {1, 2, 2})), y = b.output(b.floats("y", {1, 2}));
  const int32_t w = b.constant("w", {2, 4}, {1, 1, 1, 1, 1, -1, 1, -1});
  b.op(Builtin::FullyConnected, {x, w}, y,
       FullyConnectedOptions{.activation = Activation::Relu6});
  CHECK(answer(b.imported(), {{1, 2, 3, 4}}) == Numbers{6, 0});
  b.model().operators[0].options = FullyConnectedOptions{.activation = Activation::ReluN1To1};
  CHECK(answer(b.imported(), {{1, 2, 3, 4}}) == Numbers{1, -1});
  b.model().operators[0].options = FullyConnectedOptions{.activation = Activation::Tanh};
  CHECK(b.error() ==
        "operators[0] FULLY_CONNECTED 'y': has the fused activation 4, expected 0 (NONE), 1 "
        "(RELU), 2 (RELU_N1_TO_1) or 3 (RELU6)");
}

TEST_CASE("tflite models: arithmetic of two operands, a list or a number") {
  const Numbers x = {1, -2, 3, -4}, other = {2, 2, -1, 1};
  CHECK(of_two(Builtin::Add, x, other, false) == Numbers{3, 0, 2, -3});
  CHECK(of_two(Builtin::Sub, x, other, false) == Numbers{-1, -4, 4, -5});
  CHECK(of_two(Builtin::Sub, x, other, false, SubOptions{Activation::Relu}) ==
        Numbers{0, 0, 4, 0});
  CHECK(of_two(Builtin::Mul, x, {2, -1}, true) == Numbers{2, 2, 6, 4});
  CHECK(of_two(Builtin::Add, x, {0.5f}, true, AddOptions{Activation::Relu}) ==
        Numbers{1.5f, 0, 3.5f, 0});
  CHECK(of_two(Builtin::Mul, x, {-2}, true) == Numbers{-2, 4, -6, 8});
  CHECK(of_two(Builtin::Sub, x, {1}, true) == Numbers{0, -3, 2, -5});
  CHECK(of_two(Builtin::Sub, x, {1}, true, {}, false) == Numbers{0, 3, -2, 5});
}

TEST_CASE("tflite models: poolings and means") {
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Pool2dOptions options{
      .stride_w = 2, .stride_h = 2, .filter_width = 2, .filter_height = 2};
  // Padding does not count.
  CHECK(of_one(Builtin::AveragePool2d, {1, 3, 3, 1}, x, {1, 2, 2, 1}, options) ==
        Numbers{3, 4.5f, 7.5f, 9});
  CHECK(of_one(Builtin::MaxPool2d, {1, 3, 3, 1}, x, {1, 2, 2, 1}, options) ==
        Numbers{5, 6, 8, 9});
  const Pool2dOptions whole{.padding = PaddingType::Valid,
                            .stride_w = 1,
                            .stride_h = 1,
                            .filter_width = 3,
                            .filter_height = 3};
  CHECK(of_one(Builtin::AveragePool2d, {1, 3, 3, 1}, x, {1, 1, 1, 1}, whole) == Numbers{5});
  CHECK(of_one(Builtin::Mean, {1, 3, 3}, x, {1, 3}, ReducerOptions{}, {{1}}) ==
        Numbers{4, 5, 6});
  CHECK(of_one(Builtin::Mean, {1, 3, 3}, x, {1, 1, 1}, ReducerOptions{.keep_dims = true},
               {{1, -1}}) == Numbers{5});
}

TEST_CASE("tflite models: operators that move elements") {
  const Numbers x = {1, 2, 3, 4};
  CHECK(of_one(Builtin::Reshape, {1, 2, 2}, x, {1, 4}) == x);
  CHECK(of_one(Builtin::Squeeze, {1, 1, 4}, x, {1, 4}) == x);
  CHECK(of_one(Builtin::Pad, {1, 2, 2}, x, {1, 3, 3}, {}, {{0, 0, 1, 0, 0, 1}}) ==
        Numbers{0, 0, 0, 1, 2, 0, 3, 4, 0});
  TfliteBuilder b;
  const int32_t a = b.floats("x", {1, 2}), padded = b.floats("p", {1, 3}),
                y = b.floats("y", {1, 5});
  b.input(a);
  b.output(y);
  b.op(Builtin::PadV2, {a, b.integers("", {2, 2}, {0, 0, 1, 0}), b.constant("", {1}, {7})},
       padded);
  // The shape of the paddings is not read.
  b.op(Builtin::Concatenation, {padded, a}, y, ConcatenationOptions{.axis = -1});
  CHECK(answer(b.imported(), {{1, 2}}) == Numbers{7, 1, 2, 1, 2});
}

TEST_CASE("tflite models: functions of each element, and softmax") {
  const Numbers x = {-4, -0.5f, 1, 8};
  const auto of = [&](Builtin op, const Options& options = {}) {
    return of_one(op, {1, 4}, x, {1, 4}, options);
  };
  CHECK(of(Builtin::Relu) == Numbers{0, 0, 1, 8});
  CHECK(of(Builtin::Relu6) == Numbers{0, 0, 1, 6});
  CHECK(of(Builtin::LeakyRelu, LeakyReluOptions{0.25f}) == Numbers{-1, -0.125f, 1, 8});
  CHECK(of(Builtin::HardSwish)[0] == 0);
  CHECK(of(Builtin::HardSwish)[3] == 8);
  CHECK(of(Builtin::Logistic)[2] == doctest::Approx(1 / (1 + std::exp(-1.0))));
  CHECK(of(Builtin::Tanh)[1] == doctest::Approx(std::tanh(-0.5)));
  const Numbers soft = of(Builtin::Softmax, SoftmaxOptions{0.5f});
  const double sum = std::exp(-2.0) + std::exp(-0.25) + std::exp(0.5) + std::exp(4.0);
  CHECK(soft[0] == doctest::Approx(std::exp(-2.0) / sum));
  CHECK(soft[3] == doctest::Approx(std::exp(4.0) / sum));
}

TEST_CASE("tflite models: weights of codes for values in floats become floats") {
  TfliteBuilder b;
  const int32_t x = b.input(b.floats("x", {1, 2})), y = b.output(b.floats("y", {1, 2}));
  const int32_t w = b.constant_codes("w", {2, 2}, {1, -2, 3, 4}, {0.5f, 0.25f});
  b.op(Builtin::FullyConnected, {x, w, b.constant("b", {2}, {1, 0})}, y);
  Texts notes;
  CHECK(answer(b.imported(&notes), {{1, 2}}) == Numbers{-0.5f, 2.75f});
  CHECK(notes ==
        Texts{"codes of weights that become floats, since TensorFlow Lite quantizes the other "
              "operand again in each run: 'w'"});
}

TEST_CASE("tflite models: names in use get a number, tensors without a name their index") {
  TfliteBuilder b;
  const int32_t x = b.input(b.floats("x", {1, 2})), h = b.floats("x", {1, 2}),
                y = b.output(b.floats("", {1, 2}));
  b.op(Builtin::Relu, {x}, h);
  b.op(Builtin::Relu6, {h}, y);
  const Graph graph = b.imported().graph;
  CHECK(std::holds_alternative<qtape::Relu>(graph[graph.at("x_2")].op));
  CHECK(std::holds_alternative<qtape::Relu6>(graph[graph.at("tensor_2")].op));
}

TEST_CASE("tflite models: everything that is not supported is named at once") {
  TfliteBuilder b;
  const int32_t x = b.input(b.floats("x", {1, 2})), q = b.codes("q", {1, 2}, 0.5f, 0),
                h = b.floats("h", {1, 2}), y = b.output(b.floats("y", {1, 2}));
  b.op(Builtin::Relu, {x}, h);
  b.model().operators.back().op = static_cast<Builtin>(42);
  b.op(Builtin::Quantize, {x}, q);
  b.op(Builtin::Add, {q, x}, y);
  CHECK(b.error() ==
        "2 problems: operators[0] DIV 'h': the operator is not supported; operators[2] ADD "
        "'y': input 0 is INT8, expected FLOAT32 as the output");
  b.model().operators.erase(b.model().operators.begin());
  b.model().operators.pop_back();
  CHECK(b.error() == "output 'y': is not computed");
  b.op(Builtin::Relu, {x}, y);
  b.model().tensors[static_cast<size_t>(y)].shape = {1, 3};
  CHECK(b.error() == "operators[1] RELU 'y': computes [1, 2], but tensor 'y' is [1, 3]");
}

TEST_CASE("tflite models: a model in floats is no program") {
  CHECK(test::error_text<FormatError>([&] {
          (void)parse_tflite(relu({1, 2}).bytes());
        }) == "computes in floats, expected INT8 or INT16; qtape import reads it as a model");
}

TEST_CASE("tflite models: a file whose tensors do not begin with 1 has no batch") {
  Texts notes;
  CHECK(!relu({3, 2}).imported(&notes).graph.batch());
  CHECK(notes == Texts{"axis 0 of a tensor is not 1: all extents are those "
                       "of the file, also the first"});
}
