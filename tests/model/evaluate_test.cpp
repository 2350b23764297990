// Evaluation, and the assignment of columns to inputs.
#include "qtape/model/evaluate.h"

#include <doctest/doctest.h>

#include <array>
#include <numeric>

#include "qtape/data/generated/digits.h"
#include "qtape/model/feed.h"
#include "qtape/model/model.h"
#include "qtape/model/quantization.h"
#include "qtape/model/recipe.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/thread_ranks.h"

using namespace qtape;
using test::error_text;

namespace {

Model digits_model() {
  Network net;
  const Value x = net.input("image", {784});
  return {linear(x, 10), loss::cross_entropy};
}

data::Dataset numbers(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 0.0f);
  data::Dataset set;
  set.add("x", Tensor::of<float>(shape, values));
  return set;
}

}  // namespace

TEST_CASE("evaluate: the last partial batch counts, and only its own samples") {
  const data::Dataset test_set = data::generate_digits(2, 64, 130).test;
  const Model model = digits_model();
  const Evaluation whole = evaluate(model, test_set);
  CHECK(whole.samples == 130);
  CHECK(whole.accuracy == accuracy(model, test_set));
  CHECK(evaluate(model, test_set.first(129)).outputs_sha256 != whole.outputs_sha256);
  CHECK(evaluate(model, test_set, 1) == whole);
  CHECK(error_text<ArgumentError>([&] {
          (void)evaluate(model, numbers({4, 392}));
        }) ==
        "input 'image' f32[784]: no column of the data fits it; the data have x f32[392]");
}

TEST_CASE("evaluate: more classes than answers, and no labels at all") {
  const Model model = digits_model();
  data::Dataset set = numbers({2, 784});
  CHECK(!evaluate(model, set).accuracy);
  CHECK(error_text<ArgumentError>([&] { (void)accuracy(model, set); }) ==
        "an accuracy needs data with labels and a model that answers [batch, classes]");
  set.add_target("labels", Tensor::of<int32_t>({2}, std::vector<int32_t>{10, 3}));
  CHECK(error_text<ArgumentError>([&] { (void)evaluate(model, set); }) ==
        "the data have 11 classes, the model has 10: sample 0 has label 10");
}

TEST_CASE("evaluate: one answer alone means class 1 above 0") {
  Network net;
  Model model(linear(net.input("x", {1}), 1));
  model.set<float>("fc1.weight", std::vector<float>{1});
  data::Dataset set;
  set.add("x", Tensor::of<float>({4, 1}, std::vector<float>{-1, 2, 3, -4}));
  set.add_target("y", Tensor::of<uint8_t>({4}, std::vector<uint8_t>{0, 1, 0, 0}));
  CHECK(accuracy(model, set) == 75);
}

TEST_CASE("evaluate: a model without one row of outputs per sample is refused") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 784}}, {}, "x");
  graph.set_outputs({graph.add(Mean{.axes = {0}, .keep_dims = true}, {x}, "mean")});
  Parameters parameters(graph, 1);
  CHECK(
      error_text<GraphError>([&] { Evaluator bad(graph, parameters, 1); }) ==
      "Mean %1 'mean' (%0 'x' f32[250, 784]): expected one row of outputs per sample, got f32[1, 784] for 250 samples");
}

TEST_CASE("feed: columns go to inputs of their name, then to the first that fits") {
  Network net;
  const Value a = net.input("a", {2, 1});
  const Value b = net.input("b", {2});
  const Value picked = net.input("index", {}, DType::S32);
  const Value y = flatten(a) - b;
  Graph graph = y.graph();
  graph.set_outputs({y.id(), picked.id()});
  Parameters parameters(graph, 1);
  Tape tape(graph.with_batch(3), parameters, {});
  data::Dataset set;
  set.add("b", Tensor::of<float>({2, 2}, std::vector<float>{1, 2, 3, 4}));
  set.add("other", Tensor::of<float>({2, 1, 2}, std::vector<float>{5, 6, 7, 8}));
  set.add("n", Tensor::of<int64_t>({2}, std::vector<int64_t>{9, 10}));
  Feed feed(inputs_of(tape), set);
  CHECK(feed.rows() == 3);
  CHECK(feed.fill_from(1) == 1);
  CHECK(tape.input<float>("a")[0] == 7);
  CHECK(tape.input<float>("b")[1] == 4);
  CHECK(tape.input<float>("b")[2] == 0);
  CHECK(tape.input<int32_t>("index")[0] == 10);
  CHECK(tape.input<int32_t>("index")[1] == 0);
}

TEST_CASE("feed: an input reads the same column in every pass") {
  // In training w takes its column by name, so that x takes the other one.
  Network net;
  const Value o = linear(net.input("x", {1}), 1);
  const Value t = net.input("t", {1}), w = net.input("w", {1});
  Model model(o, mean(w * square(o - t)));
  model.set<float>("fc1.weight", std::vector<float>{1});
  data::Dataset set;
  set.add("w", Tensor::of<float>({2, 1}, std::vector<float>{5, 6}));
  set.add("feature", Tensor::of<float>({2, 1}, std::vector<float>{1, 2}));
  set.add_target("t", Tensor::of<float>({2, 1}, std::vector<float>{1, 2}));
  CHECK(predict(model, set) == Tensor::of<float>({2, 1}, std::array{1.0f, 2.0f}));
  CHECK(score(model, set, MetricKind::MeanSquaredError) == 0);
  const Model codes = quantized(model, {}, set);
  const Tensor rounded = predict(codes, set);
  CHECK(rounded.values<float>()[1] == doctest::Approx(2).epsilon(0.01));
  CHECK(verify(codes, set).mismatches() == 0);
  // A program has no input of the loss.
  CHECK(error_text<ArgumentError>(
            [&] { (void)predict(codes.integers(Requantization::SingleRounding), set); }) ==
        "input 'x' f32[1]: columns w and feature fit it, and neither has its name: rename the "
        "one to read");
}

TEST_CASE("feed: heads are compared with the targets of their names, else in order") {
  Network net;
  const Value x = net.input("x", {1});
  const Value a = linear(x, 1, {.label = "a"}), b = linear(x, 1, {.label = "b"});
  const Value second = loss::mean_squared_error(b), first = loss::mean_squared_error(a);
  Model model({a, b}, first + second);
  model.set<float>("a.weight", std::vector<float>{1});
  model.set<float>("b.weight", std::vector<float>{2});
  for (const std::array names : {std::array{"b", "a"}, std::array{"a", "b"}}) {
    CAPTURE(names[0]);
    data::Dataset set;
    set.add("x", Tensor::of<float>({2, 1}, std::vector<float>{1, 2}));
    for (const char* name : names) {
      const float factor = *name == 'a' ? 1 : 2;
      set.add_target(name, Tensor::of<float>({2, 1}, std::vector<float>{factor, 2 * factor}));
    }
    for (const AnswerHash& each : evaluate(model, set).outputs) {
      REQUIRE(each.score);
      CHECK(each.score->value == 0);
    }
    const NodeId total = model.graph().losses()[0];
    Tape tape(model.graph().with_batch(2), model.parameters(), {.outputs = {total}});
    (void)Feed(inputs_of(tape), set).fill_from(0);
    tape.forward(mode::eval);
    CHECK(tape.value<float>(total)[0] == 0);
  }
}

TEST_CASE("feed: an input of answers reads no target, whatever the losses compare it with") {
  Network net;
  const Value x = net.input("x", {1});
  const Value y = linear(x, 1, {.label = "y"});
  const Value far = mean(square(y - x));
  Model model(y, far * 0.01 + loss::mean_squared_error(y));
  model.set<float>("y.weight", std::vector<float>{2});
  data::Dataset set;
  set.add("data", Tensor::of<float>({2, 1}, std::vector<float>{1, 2}));
  set.add_target("y", Tensor::of<float>({2, 1}, std::vector<float>{10, 20}));
  CHECK(predict(model, set) == Tensor::of<float>({2, 1}, std::array{2.0f, 4.0f}));
  // Relative to the target, not to x.
  CHECK(score(model, set, MetricKind::MeanSquaredError) == (64 + 256) / 2);
}

TEST_CASE("feed: a column with the axes of the input comes before one with its elements") {
  Network net;
  const Model model(flatten(net.input("x", {2, 2})));
  data::Dataset set;
  set.add("features", Tensor::of<float>({1, 4}, std::array{1.0f, 2.0f, 3.0f, 4.0f}));
  set.add("image", Tensor::of<float>({1, 2, 2}, std::array{5.0f, 6.0f, 7.0f, 8.0f}));
  CHECK(predict(model, set) == Tensor::of<float>({1, 4}, std::array{5.0f, 6.0f, 7.0f, 8.0f}));
}

TEST_CASE("feed: an input with the name of a target gets no target") {
  Network net;
  const Model model(net.input("y", {2}) + 1.0);
  data::Dataset set;
  set.add("x", Tensor::of<float>({1, 2}, std::array{1.0f, 2.0f}));
  set.add_target("y", Tensor::of<float>({1, 2}, std::array{5.0f, 6.0f}));
  CHECK(predict(model, set) == Tensor::of<float>({1, 2}, std::array{2.0f, 3.0f}));
}

TEST_CASE("feed: extents in another order are refused") {
  Network net;
  const Value x = net.input("image", {8, 8, 3});
  const Model model(flatten(x));
  CHECK(
      error_text<ArgumentError>([&] {
        (void)evaluate(model, numbers({1, 3, 8, 8}));
      }) ==
      "input 'image' f32[8, 8, 3]: no column of the data fits it; the data have x f32[3, 8, 8]");
  CHECK(evaluate(model, numbers({1, 192})).samples == 1);
  data::Dataset named;
  named.add("image", Tensor::of<float>({1, 4}, std::vector<float>(4)));
  CHECK(error_text<ArgumentError>([&] { (void)evaluate(model, named); }) ==
        "input 'image' f32[8, 8, 3]: column image has f32[4] per sample");
}

TEST_CASE("evaluate: ranks share the batches and get the result of one process") {
  Network net;
  const Value x = net.input("image", {784});
  const Value hidden = linear(x, 16);
  const Model model(
      {linear(hidden, 10, {.label = "class"}), linear(hidden, 784, {.label = "again"})}, 3);
  const data::Dataset all = data::generate_digits(2, 64, 1100).test;
  for (const int64_t size : {1, 250, 251, 1100}) {
    const data::Dataset set = all.first(size);
    const Evaluation alone = evaluate(model, set, 1);
    CHECK(alone.outputs.size() == 2);
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(size);
      CAPTURE(ranks);
      std::vector<Evaluation> shared(static_cast<size_t>(ranks));
      test::ThreadRanks(ranks, true).run([&](Exchange& exchange) {
        Evaluator evaluator(model.graph(), model.parameters(), 1, {}, &exchange);
        shared[static_cast<size_t>(exchange.rank())] = evaluator.run(set);
      });
      for (const Evaluation& each : shared) CHECK(each == alone);
    }
  }
}

TEST_CASE("calibration: batches leave few samples out") {
  // Of `samples`, batches of `rows`, and the number of samples that full batches leave out.
  struct Case {
    int64_t samples, rows, left;
  };
  for (const auto& [samples, rows, left] :
       {Case{7, 7, 0}, Case{250, 250, 0}, Case{251, 250, 1}, Case{320, 160, 0},
        Case{499, 249, 1}, Case{640, 160, 0}, Case{1000, 250, 0}}) {
    CHECK(calibration_batch(samples) == rows);
    CHECK(samples % rows == left);
  }
}
