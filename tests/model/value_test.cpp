// Networks as expressions.
#include "qtape/model/value.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "qtape/engine/quantizers.h"
#include "qtape/model/attention.h"
#include "qtape/model/fit.h"
#include "qtape/model/model.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::error_text;

TEST_CASE("values: layers are numbered, and quantizers called after what they quantize") {
  Network net;
  Value x = quantized(net.input("image", {28, 28, 1}), quantize::activations(8));
  x = relu(conv2d(x, 4, {3, 3}, quantize::layer(4, 8)));
  x = quantized(x, quantize::activations(4));
  x = linear(flatten(max_pool(x, {2, 2})), 16, quantize::weights(4));
  const Value y = linear(relu(x), 10, quantize::layer(4, 8));
  const Graph& graph = y.graph();
  for (const std::string label :
       {"image.quantized", "conv1.weight.quantized", "conv1", "conv1.output.quantized", "fc1",
        "fc1.weight.quantized", "fc2.input.quantized", "fc2.bias.quantized", "fc2"}) {
    CAPTURE(label);
    CHECK(graph.find(label).has_value());
  }
  CHECK(!graph.find("conv1.input.quantized"));
  CHECK(quantizers(graph).size() == 6);
  CHECK(y.shape() == Shape{10});
  CHECK(x.shape() == Shape{16});
  CHECK(graph.with_batch(7)[y.id()].type.shape == Shape{7, 10});
}

TEST_CASE("values: operators and shapes") {
  Network net;
  const Value a = net.input("a", {2, 3});
  const Value b = net.input("b", {2, 3});
  CHECK((a + b - a * b).shape() == Shape{2, 3});
  CHECK(concat({a, b}).shape() == Shape{2, 6});
  CHECK(concat({a, b}, 0).shape() == Shape{4, 3});
  CHECK(reshape(a, {3, -1}).shape() == Shape{3, 2});
  const Value flat = reshape(a, {6});
  CHECK(flat.graph().with_batch(5)[flat.id()].type.shape == Shape{5, 6});
  const Value q = quantized(a, quantize::activations());
  CHECK(quantized(q, quantize::activations()).id() == q.id());
  CHECK(a.graph()[q.id()].label == "a.quantized");
  CHECK(tanh(sigmoid(gelu(dropout(a, 0.5)))).shape() == a.shape());
}

TEST_CASE("values: attention over heads, and layer norms") {
  Network net;
  const Value x = net.input("x", {3, 4});
  const Value normed = layer_norm(x);
  const Value y = self_attention(normed, {.heads = 2, .causal = true});
  CHECK(y.shape() == Shape{3, 4});
  for (const char* label : {"norm1", "norm1.gamma", "attention1.input.weight",
                            "attention1.softmax", "attention1.output"}) {
    CHECK(y.graph().find(label));
  }
  CHECK(self_attention(y).graph().find("attention2.output"));
  CHECK(error_text<GraphError>([&] { (void)self_attention(x, {.heads = 3}); }) ==
        "Input %0 'x': 3 heads do not divide 4 channels");
  CHECK(error_text<GraphError>([&] {
          (void)self_attention(net.input("flat", {4}));
        }).ends_with("attention needs samples [positions, c], got [4]"));
}

TEST_CASE("values: causal attention reads no following position") {
  Network net;
  const Value y = self_attention(net.input("x", {3, 4}), {.heads = 2, .causal = true});
  Model model(y);
  const auto answers = [&](float last) {
    data::Dataset set;
    std::vector<float> x = {0.5f, -1, 2, 0.25f, 1, 0, -2, 1, last, 2, -last, 1};
    set.add("x", Tensor::of<float>({1, 3, 4}, x));
    const Tensor all = predict(model, set);
    const auto values = all.values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const auto one = answers(1), other = answers(-3);
  CHECK(std::equal(one.begin(), one.begin() + 8, other.begin()));
  CHECK(!std::equal(one.begin() + 8, one.end(), other.begin() + 8));
}

TEST_CASE("values: a parameter is shared by nodes, and trains") {
  Network net;
  const Value w = net.parameter("w", {3, 4});
  const Value a = node(MatMul{.transpose_b = true}, {net.input("a", {4}), w});
  const Value b = node(MatMul{.transpose_b = true}, {net.input("b", {4}), w});
  const Value gamma = net.parameter("gamma", {3}, init::Fill{1});
  const Value beta = net.constant(Tensor::of<float>({3}, std::vector<float>{1, 2, 3}));
  const Model model(node(LayerNorm{}, {a - b, gamma, beta}, "y"));
  CHECK(model.parameters().trainable_elements() == 12 + 3);
  CHECK(error_text<GraphError>([&] { (void)net.parameter("w", {2}); }).find("'w'") !=
        std::string::npos);
}

TEST_CASE("values: what does not fit is refused with its place") {
  Network one, two;
  const Value a = one.input("a", {2});
  CHECK(error_text<GraphError>([&] { (void)(a + two.input("b", {2})); }) ==
        "Add: the values belong to different networks");
  CHECK(error_text<GraphError>([&] { (void)one.input("a", {3}); }).find("'a'") !=
        std::string::npos);
  CHECK(error_text<GraphError>([&] {
          (void)reshape(a, {3, -1});
        }) == "Input %0 'a': 2 elements of a sample do not divide into 3, -1");
  CHECK(error_text<GraphError>([&] { (void)node(Relu{}, std::span<const Value>{}); }) ==
        "Relu: expected at least one value; a Network adds nodes without operands");
  for (const int axis : {-2, 1}) {
    const std::string text =
        fmt::format("Input %0 'a': axis {} is out of range for samples of rank 1", axis);
    CHECK(error_text<GraphError>([&] { (void)mean(a, {axis}); }) == text);
    CHECK(error_text<GraphError>([&] { (void)sum(a, {axis}); }) == text);
    CHECK(error_text<GraphError>([&] { (void)concat({a, a}, axis); }) == text);
  }
  CHECK(a.graph().size() == 1);
}

TEST_CASE("values: a model is of one network") {
  Network one, two;
  const Value a = linear(one.input("x", {4}), 2);
  const Value b = linear(two.input("x", {4}), 2);
  const std::string text = "the answers and the loss belong to different networks";
  CHECK(error_text<GraphError>([&] { Model(a, loss::cross_entropy(b)); }) == text);
  CHECK(error_text<GraphError>([&] { Model(std::vector<Value>{a, b}); }) == text);
  CHECK(error_text<ArgumentError>([&] { Model(a, Loss{}); }) ==
        "expected a loss, got an empty function");
}

TEST_CASE("values: losses bring their own inputs") {
  Network net;
  const Value y = linear(net.input("x", {4}), 3);
  const Model classifier(y, loss::cross_entropy);
  CHECK(classifier.graph()[classifier.graph().at("labels")].type ==
        TensorType{DType::S32, {1}});
  REQUIRE(classifier.loss());
  CHECK(classifier.graph().name(*classifier.loss()) == "loss");
  Network other;
  const Model regression(linear(other.input("x", {4}), 1), loss::mean_squared_error);
  CHECK(regression.graph()[regression.graph().at("target")].type.shape == Shape{1, 1});
  CHECK(regression.loss() != regression.answer());
}

namespace {

/// Returns the value of `y` for the input x = `numbers`.
std::vector<float> computed(const Value& y, std::vector<float> numbers) {
  Graph graph = y.graph();
  graph.set_outputs({y.id()});
  data::Dataset set;
  set.add("x", Tensor::of<float>({1, static_cast<int64_t>(numbers.size())}, numbers));
  const Tensor answer = predict(Model(graph), set);
  return test::copied(answer.values<float>());
}

}  // namespace

TEST_CASE("values: numbers stand in expressions") {
  Network net;
  const Value x = net.input("x", {3});
  const std::vector<float> in = {-1.5f, 0.25f, 3.0f};
  CHECK(computed(2.0 * x, in) == std::vector{-3.0f, 0.5f, 6.0f});
  CHECK(computed(x * 2, in) == std::vector{-3.0f, 0.5f, 6.0f});
  CHECK(computed(x - 0.5, in) == std::vector{-2.0f, -0.25f, 2.5f});
  CHECK(computed(1 + x, in) == computed(x + 1, in));
  CHECK(computed(1 - x, in) == std::vector{2.5f, 0.75f, -2.0f});
  CHECK(computed(x / 4, in) == std::vector{-0.375f, 0.0625f, 0.75f});
  CHECK(computed(-x, in) == std::vector{1.5f, -0.25f, -3.0f});
  CHECK(computed(3 / x, in) == std::vector{-2.0f, 12.0f, 1.0f});
  CHECK(computed(x / (x + 1), in) == std::vector{3.0f, 0.2f, 0.75f});
  CHECK(computed(abs(x), in) == std::vector{1.5f, 0.25f, 3.0f});
  CHECK(computed(square(x), in) == std::vector{2.25f, 0.0625f, 9.0f});
  CHECK(computed(sqrt(abs(x) + 1.75), {-0.5f, 0.5f, 2.25f}) == std::vector{1.5f, 1.5f, 2.0f});
  CHECK(computed(clamp(x, -1, 1), in) == std::vector{-1.0f, 0.25f, 1.0f});
  CHECK(computed(log(exp(x)), {0, 0, 0}) == std::vector{0.0f, 0.0f, 0.0f});
  CHECK(mean(x).shape() == Shape{});
  CHECK(computed(mean(x, {0}), {1, 2, 6}) == std::vector{3.0f});
  CHECK(computed(sum(reshape(x, {3, 1}), {-1}), in) == in);
  const Value parts[] = {x, 2 * x, 3 * x};
  CHECK(computed(concat(parts), {1, 2, 3}).size() == 9);
  CHECK(error_text<GraphError>([&] { (void)(x / 0); }) ==
        "Input %0 'x': a divisor must be finite and not 0, got 0");
  CHECK(error_text<GraphError>([&] { (void)(std::nan("") / x); }) ==
        "Input %0 'x': a number to divide must be finite, got nan");
  CHECK(error_text<GraphError>([&] { (void)sum(x, {}); }) ==
        "Input %0 'x': expected at least one axis of the sample");
}

TEST_CASE("values: expressions with numbers have integers") {
  Network net;
  const Value x = quantized(net.input("x", {6}), quantize::activations());
  const Value y = quantized(abs(1 - 2 * x) / 3, quantize::activations());
  Model model(linear(y, 2, quantize::layer()), loss::mean_squared_error);
  data::Dataset set;
  std::vector<float> numbers(60 * 6), targets(60 * 2);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 37) / 18 - 1;
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<float>(i % 5);
  set.add("x", Tensor::of<float>({60, 6}, numbers));
  set.add_target("target", Tensor::of<float>({60, 2}, targets));
  fit(model, set, {.epochs = 2, .batch = 20, .progress = false});
  CHECK(test::mismatch(verify(model, set, Requantization::SingleRounding)) == "");
}

TEST_CASE("values: losses of regressions are their formulas") {
  const std::vector<float> answers = {0.0f, 1.5f, -4.0f, 0.25f};
  const std::vector<float> targets = {0.5f, 1.0f, 0.0f, 0.25f};
  const auto loss_of = [&](const Loss& loss) {
    Network net;
    const Value x = net.input("x", {2});
    const Model model(x, loss);
    Graph graph = model.graph().with_batch(2);
    const NodeId output = graph.outputs()[1];
    Parameters none(graph, 1);
    Tape tape(graph, none, {.outputs = {output}});
    std::ranges::copy(answers, tape.input<float>("x").begin());
    std::ranges::copy(targets, tape.input<float>("target").begin());
    tape.forward(mode::float_eval);
    CHECK(graph.name(output) == "loss");
    return tape.value<float>(output)[0];
  };
  CHECK(loss_of(loss::l1) == (0.5f + 0.5f + 4.0f) / 4);
  CHECK(loss_of(loss::mean_squared_error) == (0.25f + 0.25f + 16.0f) / 4);
  CHECK(loss_of(loss::huber()) == (0.125f + 0.125f + 3.5f) / 4);
  CHECK(loss_of(loss::huber(0.25)) == (0.09375f + 0.09375f + 0.25f * 3.875f) / 4);
  CHECK(error_text<ArgumentError>([] { (void)loss::huber(0); }) ==
        "huber: delta must be finite and above 0, got 0");
}

TEST_CASE("values: recurrent layers start from zeros or from a state") {
  Network net;
  const Value x = net.input("x", {5, 4});
  const std::vector<Value> h = gru(x, 6, quantize::layer());
  CHECK(h.size() == 5);
  CHECK(h.back().shape() == Shape{6});
  const std::vector<LstmValues> again = lstm(x, {h.back(), h.front()});
  CHECK(again.back().c.shape() == Shape{6});
  CHECK(x.graph().find("gru1.4"));
  CHECK(gru(x, 3).front().graph().find("gru2.0"));
  CHECK(x.graph().find("lstm1.4"));
  const Value together = reshape(concat(std::vector<Value>(h)), {5, 6});
  CHECK(gru(together, 2).size() == 5);
  CHECK(error_text<GraphError>([&] { (void)gru(x, 0); }) ==
        "'gru4': hidden must be at least 1, got 0");
  CHECK(error_text<GraphError>([&] { (void)gru(x, 2, {.bias = false}); }) ==
        "'gru4': recurrent layers always have a bias");
  CHECK(error_text<GraphError>([&] { (void)lstm(x, 2, {.norm = true}); }) ==
        "'lstm2': recurrent layers do not support a norm");
  Network other;
  CHECK(error_text<GraphError>([&] { (void)gru(x, other.input("h", {2})); }) ==
        "Input %0 'x': the values belong to different networks");
}

TEST_CASE("values: a layer that throws adds nothing") {
  Network net;
  const Value x = quantized(net.input("x", {4, 4, 3}), quantize::activations());
  const Value steps = net.input("steps", {5, 3});
  const Value one = mean(steps);
  const Graph before = x.graph();
  FakeQuantize by_absent_axis = quantize::weights();
  by_absent_axis.axis = 7;
  const Layer wrong{.weights = by_absent_axis, .activations = quantize::activations()};
  const std::vector<std::function<void()>> layers = {
      [&] { (void)linear(x, 2, wrong); },
      [&] {
        (void)conv2d(x, 2, {9, 9});
      },
      [&] {
        (void)depthwise_conv2d(x, {2, 2}, wrong);
      },
      [&] { (void)gru(steps, 2, wrong); },
      [&] { (void)lstm(steps, 2, wrong); },
      [&] { (void)gru(steps, steps, {}); },
      [&] { (void)quantized(steps, quantize::activations(77)); },
      [&] { (void)batch_norm(steps, {.eps = -1}); },
      [&] { (void)loss::cross_entropy(one); },
      [&] {
        (void)reshape(x, {-1, -1});
      },
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    CAPTURE(i);
    CHECK_THROWS_AS(layers[i](), GraphError);
    CHECK(x.graph() == before);
  }
  CHECK(
      error_text<GraphError>(layers.back()).ends_with("only one extent may be -1, got -1, -1"));
  // Nothing of the failed attempts is in the way of the layer as it should be.
  const Value y = linear(x, 2, quantize::layer(4, 8));
  CHECK(y.graph().name(y.id()) == "fc1");
}

TEST_CASE("values: one that was moved from is still a value") {
  Network net;
  Value x = net.input("x", {2});
  const Value moved = std::move(x);
  CHECK(x.shape() == moved.shape());  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("values: samples of fewer axes are aligned behind the batch") {
  Network net;
  const Value x = net.input("x", {2, 3}), z = net.input("z", {3});
  const Value sum = x + z;
  CHECK(sum.shape() == Shape{2, 3});
  const Value difference = z - x;
  CHECK(difference.shape() == Shape{2, 3});
  const Graph graph = [&] {
    Graph copy = x.graph();
    copy.set_outputs({sum.id()});
    return copy.with_batch(2);
  }();
  const Parameters none(graph, 1);
  Tape tape(graph, none, {.outputs = {sum.id()}});
  for (size_t i = 0; i < 6; ++i) tape.input<float>("z")[i] = static_cast<float>(i);
  tape.forward(mode::eval);
  CHECK(tape.value<float>(sum.id())[0] == 0);
  CHECK(tape.value<float>(sum.id())[6] == 3);
  CHECK(error_text<GraphError>([&] {
          (void)reshape(z, {2});
        }).ends_with("a sample [3] has 3 elements, reshaped to [2] it would have 2"));
  CHECK(error_text<GraphError>([&] {
          (void)reshape(z, {int64_t{1} << 40, int64_t{1} << 40});
        }).starts_with("Input %"));
}
