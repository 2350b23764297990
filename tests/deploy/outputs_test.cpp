// Outputs of programs: several of them, and reshaped ones.
#include <doctest/doctest.h>

#include "qtape/deploy/convert.h"
#include "qtape/integer/program/session.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/verified_models.h"

using namespace qtape;
using test::check_all;
using test::error_text;
using test::net;
using test::noise;

namespace {

/// [1, 1, c] for each sample.
Value pooled(const Value& x) { return node(GlobalAvgPool{.keep_dims = true}, {x}); }

IntegerProgram with_integers(const Model& model) {
  return convert(model.graph(), model.parameters(), {.integer_outputs = true});
}

}  // namespace

TEST_CASE("outputs: pooled branches side by side, flattened before a layer") {
  check_all(net([](const Value& h) {
    return linear(flatten(concat({avg_pool(h, {2, 2}), max_pool(h, {2, 2})})), 5);
  }));
  check_all(net([](const Value& h) {
    return linear(flatten(concat({avg_pool(h, {2, 2}), avg_pool(h, {2, 2})})), 5);
  }));
  check_all(net([](const Value& h) {
    const Value largest = node(Max{.axes = {1, 2}, .keep_dims = true}, {h});
    return linear(flatten(concat({pooled(h), largest})), 5);
  }));
}

TEST_CASE("outputs: a network may end in a pool, flattened") {
  check_all(net([](const Value& h) { return flatten(pooled(h)); }));
  check_all(net([](const Value& h) { return flatten(avg_pool(h, {2, 2})); }));
  check_all(net([](const Value& h) { return flatten(max_pool(h, {2, 2})); }));
}

TEST_CASE("outputs: a network may end in a layer, flattened over its channels") {
  const Model model = net([](const Value& h) { return flatten(conv2d(h, 3, {2, 2})); });
  check_all(model);
  CHECK(error_text<GraphError>([&] { (void)with_integers(model); })
            .ends_with(
                "its accumulators have 3 scales, one for each channel, and the view [1, 27] "
                "joins channels with other axes: quantize its output, or use the output before "
                "the view"));
}

TEST_CASE("outputs: integers under the shape of a view") {
  const Model model = net([](const Value& h) { return flatten(pooled(h)); });
  const IntegerProgram program = with_integers(model);
  const IntegerValue& y = program[program.outputs()[0]].value;
  CHECK(y.is_accumulators());
  CHECK(y.type.shape == Shape{1, 4});
  const Model layer = net([](const Value& h) { return reshape(conv2d(h, 3, {2, 2}), {9, 3}); });
  const IntegerProgram rows = with_integers(layer);
  CHECK(rows[rows.outputs()[0]].value.type.shape == Shape{1, 9, 3});
  CHECK(rows[rows.outputs()[0]].value.scales.size() == 3);
  check_all(layer);
}

TEST_CASE("outputs: one in the middle and one at the end, in integers as well") {
  Network network;
  const Value x = network.input("x", {6, 6, 3});
  const Value h = relu(conv2d(x, 4, {3, 3}, {.label = "conv"}));
  const Value y = linear(flatten(max_pool(h, {2, 2})), 5, {.label = "fc"});
  const Model model = quantized(Model(std::vector<Value>{y, h}, 2), {}, noise(), 64, 1);
  CHECK(model.integers(Requantization::FloatMultiply).outputs().size() == 2);
  check_all(model);
  const IntegerProgram program = with_integers(model);
  REQUIRE(program.outputs().size() == 2);
  CHECK(program[program.outputs()[0]].value.is_accumulators());
  CHECK(program[program.outputs()[1]].value.type.shape == Shape{1, 4, 4, 4});
}

TEST_CASE("outputs: one value twice, and views of one that others read") {
  Network network;
  const Value h = relu(conv2d(network.input("x", {6, 6, 3}), 4, {3, 3}));
  const Value y = linear(flatten(h), 5);
  check_all(quantized(Model(std::vector<Value>{y, y, reshape(h, {16, 4}), flatten(h)}, 2), {},
                      noise(), 64, 1));
}

TEST_CASE("outputs: a refusal lists what each of them lacks") {
  Network network;
  const Value h = linear(network.input("x", {4}), 3, quantize::layer());
  const Model model(std::vector<Value>{h, node(Tanh{}, {h}, "p"), node(Exp{}, {h}, "e")});
  const std::string text =
      error_text<GraphError>([&] { (void)model.integers(Requantization::FloatMultiply); });
  CHECK(text.find("'p'") != std::string::npos);
  CHECK(text.find("'e'") != std::string::npos);
}
