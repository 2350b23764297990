// One number for all that is computed: small networks are trained on exact integers, converted
// and run under every requantization. Every processor, compiler, instruction set and number of
// threads gives the same number. A change that alters it says so in CHANGELOG.md, with the
// reason.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/core/random.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/io/sha256.h"
#include "qtape/model/attention.h"
#include "qtape/model/fit.h"
#include "qtape/model/model.h"

using namespace qtape;

namespace {

// By value: doctest shows a pointer as an address.
const std::string number = "9f0a2c7ad5939956214247eae4448899ab7d5d00008ac554afd40ef8aafbce17";

// Gradients are sums of oneDNN in f32, whose order depends on the processor. Scales that are
// powers of two, few bits and targets on a grid keep every sum within the 24 bits of f32, so it
// is exact in any order.
Layer layer(std::optional<int> axis) {
  FakeQuantize weights{
      .bits = 4, .axis = axis, .power_of_two = true, .ste = Ste::ClippedIdentity};
  return {.weights = weights};
}
Value on_grid(const Value& x) {
  return quantized(x, FakeQuantize{.bits = 4,
                                   .power_of_two = true,
                                   .ste = Ste::ClippedIdentity,
                                   .scale_mode = EMA{.decay = 0.75}});
}

Model perceptron() {
  Network net;
  const Value x = on_grid(net.input("x", {4, 4, 2}));
  const Value h = on_grid(relu(linear(flatten(x), 8, layer(0))));
  const Value y = on_grid(linear(h, 2, layer(0)));
  return {y, loss::mean_squared_error(y), 5};
}

Model convolutions() {
  Network net;
  const Value x = on_grid(net.input("x", {4, 4, 2}));
  const Value h = on_grid(relu(conv2d(x, 4, {2, 3}, layer({}), {.padding = Padding::Same})));
  const Value p = max_pool(h, {2, 2});
  const Value y = on_grid(linear(flatten(p), 2, layer({})));
  return {y, loss::mean_squared_error(y), 6};
}

Model depthwise() {
  Network net;
  const Value x = on_grid(net.input("x", {4, 4, 2}));
  const Value h =
      on_grid(relu(depthwise_conv2d(x, {3, 3}, layer({}), {.padding = Padding::Same})));
  const Value p = avg_pool(on_grid(conv2d(h, 3, {1, 1}, layer({}))), {2, 2});
  const Value y = on_grid(linear(flatten(on_grid(p)), 2, layer(0)));
  return {y, loss::mean_squared_error(y), 7};
}

// The gradient of a norm is not on a grid, so no product computes it further: below it is an
// input. Its loops sum in one order on all processors.
Model norm() {
  Network net;
  const Value x = on_grid(net.input("x", {4, 4, 2}));
  const Value h = on_grid(layer_norm(reshape(x, {4, 8})));
  const Value y = on_grid(linear(flatten(h), 2, layer(0)));
  return {y, loss::mean_squared_error(y), 8};
}

// Only the forward pass of the softmax, as below it are inputs alone.
Model attention() {
  Network net;
  const Value x = on_grid(reshape(net.input("x", {4, 4, 2}), {4, 8}));
  const Value scores = on_grid(node(MatMul{.transpose_b = true}, {x, x}));
  const Value largest = node(Max{.axes = {2}, .keep_dims = true}, {scores});
  const Value e = on_grid(node(Exp{}, {on_grid(scores - largest)}));
  const Value sum = on_grid(node(Sum{.axes = {2}, .keep_dims = true}, {e}));
  const Value weights = on_grid(e * on_grid(node(Pow{.exponent = -1}, {sum})));
  const Value values = on_grid(linear(x, 3, layer(0)));
  const Value h = on_grid(node(MatMul{}, {weights, values}));
  const Value y = on_grid(linear(flatten(h), 2, layer(0)));
  return {y, loss::mean_squared_error(y), 9};
}

/// Values in eighths: x in [-2, 2], targets in [-1, 1].
data::Dataset samples() {
  constexpr int64_t count = 32;
  const Random random(11, 3);
  const auto eighths = [&](uint64_t stream, int64_t n, int64_t most) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t drawn =
          random.below(stream + static_cast<uint64_t>(i), static_cast<uint64_t>(2 * most + 1));
      values.push_back(static_cast<float>(static_cast<int64_t>(drawn) - most) / 8);
    }
    return values;
  };
  data::Dataset set;
  set.add("x", Tensor::of<float>({count, 4, 4, 2}, eighths(0, count * 32, 16)));
  set.add_target("y", Tensor::of<float>({count, 2}, eighths(100000, count * 2, 8)));
  return set;
}

FitOptions options_of(Requantization requantization, int threads) {
  return {.epochs = 3,
          .batch = 8,
          .optimizer = Sgd{.momentum = 0.5},
          .learning_rate = 0.0625,
          .schedule = ConstantRate{},
          .arithmetic = exact(requantization),
          .threads = threads,
          .progress = false,
          .interruptible = false};
}

std::string number_of(Model model, Requantization requantization, int threads) {
  const data::Dataset set = samples();
  fit(model, set, options_of(requantization, threads));
  const IntegerProgram program = model.integers(requantization);
  const Tensor answers = predict(program, set, threads);
  const std::string text = to_json(program);
  return model.parameters().sha256() + "\n" + sha256_hex(std::as_bytes(std::span(text))) +
         "\n" + sha256_hex(LittleEndian(answers.data, size_of(answers.type.dtype)).bytes()) +
         "\n";
}

}  // namespace

TEST_CASE("one number: training, conversion and integers give the same bits everywhere") {
  for (const int threads : {1, 2}) {
    std::string all;
    for (const std::string_view name : enum_names<Requantization>) {
      for (Model (*network)() : {perceptron, convolutions, depthwise, norm, attention}) {
        all += std::string(name) + "\n" +
               number_of(network(), from_string<Requantization>(name).value(), threads);
      }
    }
    CAPTURE(all);
    CHECK(sha256_hex(std::as_bytes(std::span(all))) == number);
  }
}

TEST_CASE("one number: a stored checkpoint resumes to the bits of an uninterrupted run") {
  Model whole = perceptron();
  FitOptions options = options_of(Requantization::SingleRounding, 1);
  fit(whole, samples(), options);
  Model resumed = Model::load(std::string(QTAPE_TEST_DATA) + "/checkpoint.json");
  options.resume = true;
  CHECK(fit(resumed, samples(), options).resumed_from == 5);
  CHECK(resumed.parameters().sha256() == whole.parameters().sha256());
}
