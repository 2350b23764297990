// Networks as expressions.
#include "qtape/model/value.h"

#include <doctest/doctest.h>

#include "qtape/engine/quantizers.h"
#include "qtape/model/model.h"
#include "qtape/tests/support/errors.h"

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

TEST_CASE("values: what does not fit is refused with its place") {
  Network one, two;
  const Value a = one.input("a", {2});
  CHECK(error_text<GraphError>([&] { (void)(a + two.input("b", {2})); }) ==
        "Add: values of different networks");
  CHECK(error_text<GraphError>([&] { (void)one.input("a", {3}); }).find("'a'") !=
        std::string::npos);
  CHECK(error_text<GraphError>([&] {
          (void)reshape(a, {3, -1});
        }) == "Input %0 'a': 2 elements of a sample do not divide into 3, -1");
  CHECK(error_text<GraphError>([&] { (void)node(Relu{}, std::span<const Value>{}); }) ==
        "Relu: expected at least one value");
  CHECK(a.graph().size() == 1);
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
