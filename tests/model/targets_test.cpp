// Targets of places, of single logits and of several answers.
#include "qtape/model/targets.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "qtape/data/files.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/fit.h"
#include "qtape/model/model.h"
#include "qtape/model/recipe.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"

using namespace qtape;
using test::error_text;

namespace {

constexpr int64_t count = 240;
constexpr int64_t steps = 6;

/// Sequences of two numbers a step; each step's class is the sign of the first number, or 2
/// where the second is above 0.5.
data::Dataset sequences() {
  std::vector<float> x;
  std::vector<int32_t> kinds;
  for (int64_t i = 0; i < count * steps; ++i) {
    const auto a = static_cast<float>(std::sin(static_cast<double>(i) * 1.7));
    const auto b = static_cast<float>(std::cos(static_cast<double>(i) * 0.9));
    x.insert(x.end(), {a, b});
    kinds.push_back(b > 0.5f ? 2 : (a > 0 ? 1 : 0));
  }
  data::Dataset set;
  set.add("x", Tensor::of<float>({count, steps, 2}, x));
  set.add_target("y", Tensor::of<int32_t>({count, steps}, kinds));
  return set;
}

Model tagger() {
  Network net;
  const Value h = relu(linear(net.input("x", {steps, 2}), 12));
  return Model(linear(h, 3));
}

FitOptions quiet(int64_t epochs) {
  return {
      .epochs = epochs, .batch = 24, .learning_rate = 0.02, .threads = 1, .progress = false};
}

double cross_entropy(std::span<const float> scores, int32_t label) {
  double sum = 0;
  for (const float each : scores) sum += std::exp(double{each});
  return std::log(sum) - double{scores[static_cast<size_t>(label)]};
}

/// The loss of a model on the first `batch` samples.
double loss_of(const Model& model, const data::Dataset& dataset, int64_t batch) {
  Tape tape(model.graph().with_batch(batch), model.parameters(),
            {.outputs = {*model.loss()}, .threads = 1});
  REQUIRE(batches_of(dataset, batch)(tape, 0));
  tape.forward(mode::eval);
  return double{tape.value<float>(*model.loss())[0]};
}

}  // namespace

TEST_CASE("targets: integers of places are classes, and all other arrays numbers") {
  const TensorType scores{DType::F32, {1, 4, 5, 3}};
  const auto column = [](DType dtype, Shape shape) {
    return data::Column{.name = "y", .sample = {dtype, shape}, .target = true};
  };
  CHECK(holds_classes(column(DType::S32, {4, 5}), scores));
  CHECK(holds_classes(column(DType::U8, {4, 5}), scores));
  CHECK(!holds_classes(column(DType::F32, {4, 5}), scores));
  CHECK(!holds_classes(column(DType::S32, {5, 4}), scores));
  CHECK(!holds_classes(column(DType::S32, {4, 5, 3}), scores));
  CHECK(!holds_classes(column(DType::S32, {4, 5}), {DType::F32, {1, 4, 5, 1}}));
  data::Column labels = column(DType::S32, {});
  labels.classes = 3;
  CHECK(holds_classes(labels, {DType::F32, {1, 3}}));
  CHECK(!holds_classes(labels, scores));
  for (const Shape& shape : {Shape{1}, Shape{1, 1}, Shape{1, 1, 1, 5}, Shape{1, 5, 1}}) {
    CHECK(holds_classes(labels, {DType::F32, shape}));
  }
  CHECK(!holds_classes(labels, {DType::F32, Shape()}));
}

TEST_CASE("targets: the loss of labelled places is the mean cross-entropy of all places") {
  const data::Dataset data = sequences();
  const Model model = with_loss(tagger(), data);
  constexpr int64_t batch = 10;
  const Tensor answers = predict(model, data, 1);
  const auto labels = data.values<int32_t>("y");
  double sum = 0;
  for (size_t place = 0; place < static_cast<size_t>(batch * steps); ++place) {
    sum += cross_entropy(answers.values<float>().subspan(place * 3, 3), labels[place]);
  }
  CHECK(loss_of(model, data, batch) == doctest::Approx(sum / (batch * steps)).epsilon(1e-6));
}

TEST_CASE("targets: labelled places are learned, scored, quantized and verified") {
  const data::Dataset data = sequences();
  Model model = with_loss(tagger(), data);
  (void)fit(model, data, quiet(30));
  const auto labels = data.values<int32_t>("y");
  const auto right = [&](const Tensor& answers) {
    int64_t found = 0;
    for (size_t place = 0; place < labels.size(); ++place) {
      const auto scores = answers.values<float>().subspan(place * 3, 3);
      found += predicted(scores) == labels[place] ? 1 : 0;
    }
    return 100.0 * static_cast<double>(found) / static_cast<double>(labels.size());
  };
  const Evaluation result = evaluate(model, data, 1);
  REQUIRE(result.accuracy);
  CHECK(*result.accuracy == doctest::Approx(right(predict(model, data, 1))));
  CHECK(*result.accuracy > 90);
  Model small = quantized(model, {.weight_bits = 4, .activation_bits = 6}, data, 200, 1);
  (void)fit(small, data, quiet(5));
  CHECK(test::mismatch(verify(small, data)) == "");
  const IntegerProgram program = small.integers(Requantization::FloatMultiply);
  const Evaluation integers = evaluate(program, data, 1);
  REQUIRE(integers.accuracy);
  CHECK(*integers.accuracy == doctest::Approx(right(predict(program, data, 1))));
  CHECK(*integers.accuracy > 85);
}

TEST_CASE("targets: a label that is no class is an error that names the sample") {
  data::Dataset data;
  data.add("x", Tensor::of<float>({2, steps, 2}, std::vector<float>(2 * steps * 2)));
  std::vector<int32_t> labels(2 * steps);
  labels[steps + 1] = 3;
  data.add_target("y", Tensor::of<int32_t>({2, steps}, labels));
  CHECK(error_text<ArgumentError>([&] { (void)evaluate(tagger(), data, 1); }) ==
        "column y: label 3 of sample 1 is outside 0..2");
}

TEST_CASE("targets: a single number is the logit of the second of two classes") {
  std::vector<float> x;
  std::vector<int32_t> labels;
  for (int i = 0; i < 120; ++i) {
    x.insert(x.end(), {std::sin(static_cast<float>(i)), std::cos(static_cast<float>(i) * 2)});
    labels.push_back(x[x.size() - 2] > x.back() ? 1 : 0);
  }
  data::Dataset data;
  data.add("x", Tensor::of<float>({120, 2}, x));
  data.add_target("y", Tensor::of<int32_t>({120}, labels));
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{-1, 1}, std::vector<int64_t>{-1},
        std::vector<int64_t>{-1, 1, 1}}) {
    Network net;
    const Value score = linear(relu(linear(net.input("x", {2}), 6)), 1);
    Model model = with_loss(Model(node(Reshape{.shape = shape}, {score})), data);
    const Tensor answers = predict(model, data, 1);
    double sum = 0;
    for (size_t i = 0; i < 120; ++i) {
      const float logit = answers.values<float>()[i];
      sum += cross_entropy(std::array{0.0f, logit}, labels[i]);
    }
    CHECK(loss_of(model, data, 120) == doctest::Approx(sum / 120).epsilon(1e-6));
    (void)fit(model, data, quiet(60));
    CHECK(accuracy(model, data, 1) > 90);
    Model small = quantized(model, {}, data, 120, 1);
    (void)fit(small, data, quiet(2));
    CHECK(test::mismatch(verify(small, data)) == "");
    CHECK(accuracy(small, data, 1) > 90);
    CHECK(small.graph()[small.answer()].type.shape.rank() == std::ssize(shape));
  }
}

TEST_CASE("targets: a file of several arrays has those with the names of the answers") {
  const test::Folder folder;
  const std::string x = folder.file("x.npy");
  const std::string y = folder.file("y.npz");
  write_npy(x, Tensor::of<float>({2, 3}, std::vector<float>(6)));
  write_arrays(y, {{"map", Tensor::of<float>({2, 2, 3}, std::vector<float>{0, 1, 2, 3, 4, 5, 6,
                                                                           7, 8, 9, 10, 11})},
                   {"other", Tensor::of<float>({2}, std::vector<float>(2))},
                   {"kind", Tensor::of<int32_t>({2}, std::vector<int32_t>{1, 0})}});
  const std::vector<data::WantedInput> inputs{{"x", {3}}};
  const std::vector<data::WantedInput> answers{{"kind", {2}}, {"map", {3, 2}}};
  const data::Dataset set = data::arrays(x, y, inputs, data::ChannelOrder::Detect, answers);
  REQUIRE(set.columns().size() == 3);
  CHECK(set.columns()[1].name == "kind.target");
  CHECK(set.columns()[1].classes == 2);
  CHECK(set.columns()[2].name == "map.target");
  CHECK(set.columns()[2].sample.shape == Shape{3, 2});
  const auto map = set.values<float>("map.target").first(6);
  CHECK(std::vector<float>(map.begin(), map.end()) == std::vector<float>{0, 3, 1, 4, 2, 5});
  using Targets = std::vector<std::vector<size_t>>;
  CHECK(targets_of(set, std::vector<std::string>{"a", "b"}) == Targets{{1}, {2}});
  CHECK(targets_of(set, std::vector<std::string>{"a", "kind.target"}) == Targets{{2}, {1}});
  CHECK(targets_of(set, std::vector<std::string>{"a"}) == Targets{{1, 2}});
  CHECK(targets_of(set, std::vector<std::string>{"a", "b", "map.target"}) ==
        Targets{{1}, {}, {2}});
  CHECK(error_text<ArgumentError>([&] {
          (void)data::arrays(x, y, inputs, data::ChannelOrder::Detect,
                             {{"kind", {2}}, {"size", {1}}});
        }) == y + ": expected an array for each answer, got none for 'size'");
  // A single array has a name too.
  const std::string one = folder.file("one.npz");
  write_arrays(one, {{"map", Tensor::of<float>({2, 3, 2}, std::vector<float>(12))}});
  for (const std::string& place : {one, y + ":map"}) {
    const data::Dataset named =
        data::arrays(x, place, inputs, data::ChannelOrder::Last, answers);
    CHECK(named.columns()[1].name == "map.target");
    CHECK(targets_of(named, std::vector<std::string>{"kind", "map"}) == Targets{{}, {1}});
  }
}

TEST_CASE("targets: an input without a column of its name takes no target") {
  Network net;
  const Model model(net.input("x", {2}) + net.input("z", {2}));
  data::Dataset set;
  set.add("x", Tensor::of<float>({1, 2}, std::array{1.0f, 2.0f}));
  set.add_target("t", Tensor::of<float>({1, 2}, std::array{3.0f, 4.0f}));
  CHECK(
      error_text<ArgumentError>([&] { (void)predict(model, set); }) ==
      "input 'z' f32[2]: no column of the data fits it; the data have x f32[2], target t f32[2]");
}

TEST_CASE("targets: a single channel may be first or last, but axes are never exchanged") {
  const auto fit = [](Shape column, Shape input) {
    float value = 0;
    return fits({.name = "x", .sample = {DType::F32, column}},
                {.label = "x", .sample = input, .floats = std::span(&value, 1)});
  };
  CHECK(fit({8, 8, 1}, {8, 8, 1}));
  CHECK(fit({1, 8, 8}, {8, 8, 1}));
  CHECK(fit({8, 8, 1}, {1, 8, 8}));
  CHECK(!fit({8, 8, 1}, {8, 1, 8}));
  CHECK(!fit({1, 8, 8}, {8, 1, 8}));
  CHECK(fit({8, 8}, {8, 1, 8}));
  CHECK(fit({64}, {8, 1, 8}));
  CHECK(fit({1, 1, 5}, {5, 1, 1}));
}

TEST_CASE("targets: answers of a Sigmoid are probabilities") {
  Network net;
  const Value logit = linear(net.input("x", {1}), 1, {.label = "fc"});
  Model model(sigmoid(logit));
  model.parameters().set("fc.weight", Tensor::of<float>({1, 1}, std::array{1.0f}));
  data::Dataset set;
  set.add("x", Tensor::of<float>({4, 1}, std::array{-2.0f, -0.5f, 0.5f, 2.0f}));
  set.add_target("y", Tensor::of<int32_t>({4}, std::array{0, 0, 1, 1}));
  CHECK(evaluate(model, set).accuracy == 100);
  const Model trained = with_loss(std::move(model), set);
  Tape tape(trained.graph(), trained.parameters(), {.outputs = {*trained.loss()}});
  tape.input<float>("x")[0] = 2;
  tape.input<int32_t>("labels")[0] = 0;
  tape.forward(mode::eval);
  CHECK(std::fabs(double{tape.value<float>(*trained.loss())[0]} - std::log1p(std::exp(2.0))) <
        1e-6);
  for (const bool both_signs : {false, true}) {
    const Model integers = quantized(trained, {.signed_activations = both_signs}, set, 4, 1);
    CHECK(evaluate(integers.integers(Requantization::FloatMultiply), set).accuracy == 100);
  }
}
