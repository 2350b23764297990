// Models: from a network to an integer program.
#include "qtape/model/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "qtape/engine/quantizers.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/model/quantization.h"
#include "qtape/model/recipe.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_fit.h"

using namespace qtape;
using test::error_text;
using test::quiet;

namespace {

Model small_model(int weight_bits, int activation_bits) {
  Network net;
  const Layer layer = quantize::layer(weight_bits, activation_bits);
  const Value h = relu(linear(flatten(net.input("image", {28, 28, 1})), 24, layer));
  return {linear(h, 10, layer), loss::cross_entropy};
}

}  // namespace

TEST_CASE(
    "models: trained, saved and loaded, they answer the same and convert without a miss") {
  const data::Split digits = data::example_digits(1280);
  for (const int bits : {8, 4, 3}) {
    CAPTURE(bits);
    Model model = small_model(bits, bits);
    (void)fit(model, digits.train, quiet(6));
    const Evaluation result = evaluate(model, digits.test);
    CHECK(result.accuracy.value() > 60);
    const test::Folder folder;
    model.save(folder.file("m.json"));
    const Model again = Model::load(folder.file("m.json"));
    CHECK(evaluate(again, digits.test) == result);
    CHECK(predict(again, digits.test) == predict(model, digits.test));
    for (const Requantization rounding : requantization::values) {
      const Verifier verifier = verify(again, digits.test, rounding);
      CHECK(test::mismatch(verifier) == "");
      CHECK(verifier.layers()[0].compared == 784 * 1000);
    }
    const IntegerProgram program = again.integers(Requantization::SingleRounding);
    CHECK(evaluate(program, digits.test).accuracy.value() > 60);
    CHECK(predict(program, digits.test).type == TensorType{DType::F32, {1000, 10}});
  }
}

TEST_CASE("models: integers and their verification leave out a last Softmax") {
  const data::Split digits = data::example_digits(640);
  Network net;
  const Value h = relu(linear(net.input("x", {784}), 24));
  Graph graph = Model(linear(h, 10)).graph();
  graph.set_outputs({graph.add(Softmax{.axis = 1}, {graph.outputs()[0]}, "probabilities")}, {});
  const Model model = quantized(Model(graph), QuantizationRecipe{}, digits.train);
  const IntegerProgram program = model.integers(Requantization::FloatMultiply);
  CHECK(evaluate(program, digits.test).accuracy == accuracy(model, digits.test));
  CHECK(test::mismatch(verify(model, digits.test)) == "");
}

TEST_CASE("models: a float model is quantized afterwards") {
  const data::Split digits = data::example_digits(1280);
  Network net;
  const Value h = relu(linear(net.input("x", {784}), 24));
  Model model(linear(h, 10), loss::cross_entropy);
  (void)fit(model, digits.train, quiet(6));
  const double wanted = accuracy(model, digits.test);
  CHECK(error_text<GraphError>([&] {
          (void)model.integers(Requantization::FloatMultiply);
        }).find("no quantizers") != std::string::npos);
  Model quantized = with_quantizers(model, calibrated_quantizers(8, 8));
  CHECK(calibrate(quantized, digits.train).size() == 4);
  CHECK(std::abs(accuracy(quantized, digits.test) - wanted) < 1);
  CHECK(test::mismatch(verify(quantized, digits.test)) == "");
  Model tuned(quantized.graph(), 3);
  CHECK(start_from(tuned, model.parameters(), digits.train) == 4);
  CHECK(std::abs(accuracy(tuned, digits.test) - wanted) < 1);
}

TEST_CASE("models: quantizers that are added to a quantized model see its quantized values") {
  const data::Split digits = data::example_digits(640);
  Model model = small_model(2, 8);
  (void)fit(model, digits.train, quiet(2));
  const Model extended = with_quantized_answers(model, digits.train);
  const Tensor answers = predict(model, digits.train);
  ValueRange<float> range;
  for (const float v : answers.values<float>()) range.merge({v, v});
  const NodeId added = extended.graph().answers().at(0);
  CHECK(qparams(extended.graph(), extended.parameters(), added)[0].scale ==
        double{kernels::qparams_of(range, grid_of(quantizer_of_answers(model.graph()))).scale});
  const Model same = with_quantized_answers(extended, digits.train);
  CHECK(same.graph() == extended.graph());
  CHECK(same.parameters().sha256() == extended.parameters().sha256());
}

TEST_CASE("models: the error of quantization is that of the worst column") {
  const data::Split digits = data::example_digits(640);
  Model model = small_model(2, 8);
  (void)fit(model, digits.train, quiet(2));
  const Tensor quantized = predict(model, digits.test);
  const std::span<const float> with = quantized.values<float>();
  Model plain(without_quantizers(model.graph()), model.parameters());
  const Tensor floats = predict(plain, digits.test);
  double worst = 0;
  for (size_t column = 0; column < 10; ++column) {
    double difference = 0;
    double sum = 0;
    double squares = 0;
    for (size_t i = column; i < with.size(); i += 10) {
      const double in_float = floats.values<float>()[i];
      difference += std::pow(with[i] - in_float, 2);
      sum += in_float;
      squares += in_float * in_float;
    }
    const auto count = static_cast<double>(with.size() / 10);
    worst = std::max(worst, std::sqrt(difference / (squares - sum * sum / count)));
  }
  CHECK(quantization_error(model, digits.test).value() == doctest::Approx(worst).epsilon(1e-5));
  CHECK(quantization_error(plain, digits.test) == 0.0);
}

TEST_CASE("models: values are set and taken over by name, with their types checked") {
  Model model = small_model(8, 8);
  CHECK(error_text<GraphError>([&] { model.set<float>("fc1.bias", std::vector<float>(23)); }) ==
        "f32[24] has 24 elements, got 23 values");
  CHECK(error_text<GraphError>([&] {
          model.set<double>("fc1.bias", std::vector<double>(24));
        }).find("fc1.bias") != std::string::npos);
  CHECK(error_text<GraphError>([&] {
          model.set<float>("fc9", std::vector<float>(1));
        }).find("fc9") != std::string::npos);
  const std::string before = model.parameters().sha256();
  Network net;
  const Model other(linear(net.input("x", {7}), 24));
  CHECK(error_text<GraphError>([&] { (void)model.take_over(other.parameters()); }) ==
        "'fc1.weight' of the saved model is f32[24, 7], the network needs f32[24, 784]");
  CHECK(model.parameters().sha256() == before);
  CHECK(error_text<GraphError>([] { Model bad{Graph()}; }) == "the graph names no outputs");
  const Value y = linear(net.input("y", {2}), 2);
  const Model twice(std::vector{y, y});
  data::Dataset set;
  set.add("y", Tensor::of<float>({1, 2}, std::array{1.0f, 2.0f}));
  CHECK(error_text<ArgumentError>([&] { (void)predict_all(twice, set); }) ==
        "two answers are called 'fc2'");
}

TEST_CASE("models: one that was moved from says so") {
  Model model = small_model(8, 8);
  const std::string before = model.parameters().sha256();
  Model moved = std::move(model);
  CHECK(moved.parameters().sha256() == before);
  const std::vector<std::function<void()>> uses = {
      [&] { (void)model.graph(); },    [&] { (void)model.parameters(); },
      [&] { (void)model.answer(); },   [&] { model.save("never.json"); },
      [&] { (void)model.sections(); },
  };
  for (const auto& use : uses) {
    CHECK(error_text<GraphError>(use) ==
          "this model was moved from; use the model that it was moved to");
  }
  model = std::move(moved);
  CHECK(model.parameters().sha256() == before);
  // Moves to themselves change nothing.
  Tape tape(model.graph(), model.parameters(), {.outputs = model.outputs(), .threads = 1});
  Tape& same_tape = tape;
  tape = std::move(same_tape);
  tape.forward(mode::eval);
  CHECK(tape.value<float>(model.answer()).size() == 10);
  const data::Dataset some = data::example_digits(320).train;
  (void)calibrate(model, some);
  Verifier verifier = verify(model, some, Requantization::FloatMultiply, 1);
  Verifier& same_verifier = verifier;
  verifier = std::move(same_verifier);
  CHECK(verifier.mismatches() == 0);
}
