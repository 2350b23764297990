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
#include "qtape/model/fit.h"
#include "qtape/model/model.h"

using namespace qtape;

namespace {

// By value: doctest shows a pointer as an address.
const std::string number = "7f407e39559404111fb61555bd94938e242cb2769fe08ccf6f8d8ff25f535b6d";

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
      for (Model (*network)() : {perceptron, convolutions}) {
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
