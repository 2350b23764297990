// The metric of a model and its data, and its value.
#include "qtape/model/metric.h"

#include <doctest/doctest.h>

#include <cmath>

#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/fit.h"
#include "qtape/model/model.h"
#include "qtape/model/recipe.h"
#include "qtape/model/targets.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;

namespace {

/// y = 2 x0 - x1 for a few points.
data::Dataset line(int64_t count, bool with_target = true) {
  std::vector<float> x;
  std::vector<float> y;
  for (int64_t i = 0; i < count; ++i) {
    const auto t = static_cast<float>(i) / static_cast<float>(count);
    x.insert(x.end(), {t, 1 - t * t});
    y.push_back(2 * t - (1 - t * t));
  }
  data::Dataset set;
  set.add("x", Tensor::of<float>({count, 2}, x));
  if (with_target) set.add_target("y", Tensor::of<float>({count}, y));
  return set;
}

Model regression() {
  Network net;
  const Value y = linear(net.input("x", {2}), 1);
  return {y, loss::mean_squared_error};
}

double squared_error(const Tensor& answers, std::span<const float> wanted) {
  const auto y = answers.values<float>();
  double sum = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    sum += (double{y[i]} - double{wanted[i]}) * (double{y[i]} - double{wanted[i]});
  }
  return sum / static_cast<double>(wanted.size());
}

}  // namespace

TEST_CASE("metric: texts, units and directions") {
  CHECK(to_string(MetricScore{MetricKind::Accuracy, 97.104}) == "accuracy 97.10 %");
  CHECK(to_string(MetricScore{MetricKind::MeanSquaredError, 0.000123456}) ==
        "mean squared error 0.0001235");
  CHECK(metric_of(MetricKind::Accuracy).better(2, 1));
  CHECK(!metric_of(MetricKind::Accuracy).better(1, 1));
  CHECK(metric_of(MetricKind::MeanSquaredError).better(1, 2));
  CHECK(!metric_of(MetricKind::MeanSquaredError).better(2, 1));
}

TEST_CASE("metric: values are scored by their mean squared error") {
  const Model model = regression();
  const data::Dataset set = line(300);
  const Evaluation result = evaluate(model, set, 1);
  REQUIRE(result.score);
  CHECK(result.score->metric == MetricKind::MeanSquaredError);
  CHECK(result.score->value ==
        doctest::Approx(squared_error(predict(model, set, 1), set.values<float>("y"))));
  CHECK(!result.accuracy);
  CHECK(!evaluate(model, line(10, false), 1).score);
  Network net;
  const Model bare(linear(net.input("x", {2}), 1));
  CHECK(evaluate(bare, set, 1).score->metric == MetricKind::MeanSquaredError);
}

TEST_CASE("metric: a target in another shape than the answer is none") {
  Network net;
  const Model model(linear(net.input("x", {2}), 3));
  CHECK(!evaluate(model, line(20), 1).score);
}

TEST_CASE("metric: an autoencoder is scored by its input, also where the data have labels") {
  Network net;
  const Value x = net.input("x", {2});
  const Value y = linear(relu(linear(x, 4)), 2);
  const data::Dataset plain = line(40, false);
  const Model unknown(y);
  const Evaluation result = evaluate(unknown, plain, 1);
  REQUIRE(result.score);
  CHECK(result.score->metric == MetricKind::MeanSquaredError);
  CHECK(result.score->value ==
        doctest::Approx(squared_error(predict(unknown, plain, 1), plain.values<float>("x"))));
  data::Dataset labelled = plain;
  labelled.add_target("fault", Tensor::of<int32_t>({40}, std::vector<int32_t>(40, 1)));
  const Model coder(y, node(MeanSquaredError{}, {y, x}));
  CHECK(evaluate(coder, labelled, 1).score->metric == MetricKind::MeanSquaredError);
  // Two answers may be two classes.
  CHECK(evaluate(unknown, labelled, 1).score->metric == MetricKind::Accuracy);
}

TEST_CASE("metric: of several targets the first that fits, and that of the loss before these") {
  Network net;
  const Value x = net.input("x", {4});
  const Value y = linear(x, 4);
  data::Dataset set;
  set.add("x", Tensor::of<float>({2, 4}, std::vector<float>(8)));
  set.add_target("weight", Tensor::of<float>({2, 3}, std::vector<float>(6)));
  set.add_target("clean", Tensor::of<float>({2, 4}, std::vector<float>(8)));
  set.add_target("label", Tensor::of<int32_t>({2}, std::vector<int32_t>{0, 9}));
  const auto column = [&](const Model& model) {
    const auto choice = choose_metric(model.graph(), model.graph().answers()[0], set);
    return choice ? set.columns()[choice->column].name : std::string();
  };
  CHECK(column(Model(y)) == "clean");
  CHECK(column(Model(y, mean(square(y - net.input("teacher", {4}))) +
                            loss::cross_entropy(y))) == "label");
  CHECK(column(Model(y, mean(square(y - net.input("clean", {4}))))) == "clean");
}

TEST_CASE("metric: a program has that of its data") {
  Model model = regression();
  (void)fit(model, line(300), {.epochs = 20, .batch = 20, .threads = 1, .progress = false});
  const Model few = quantized(model, {}, line(300), 300, 1);
  const IntegerProgram program = few.integers(Requantization::FloatMultiply);
  const Evaluation result = evaluate(program, line(300), 1);
  REQUIRE(result.score);
  CHECK(result.score->metric == MetricKind::MeanSquaredError);
  CHECK(result.score->value == doctest::Approx(squared_error(predict(program, line(300), 1),
                                                             line(300).values<float>("y"))));
}

TEST_CASE("metric: fit keeps the epoch of the smallest error") {
  Model model = regression();
  std::vector<double> scores;
  FitOptions options{.epochs = 6,
                     .batch = 20,
                     .learning_rate = 0.5,
                     .validation = line(50),
                     .keep_best = true,
                     .threads = 1,
                     .progress = false};
  const FitResult result = fit(model, line(300), options);
  for (const EpochResult& each : result.epochs) {
    REQUIRE(each.score);
    scores.push_back(*each.score);
  }
  const auto least = std::ranges::min_element(scores);
  CHECK(result.best_epoch == least - scores.begin() + 1);
  CHECK(evaluate(model, line(50), 1).score->value == *least);
}

TEST_CASE("metric: one that is asked for comes before that of model and data") {
  const Model model = regression();
  const data::Dataset set = line(300);
  const Tensor answers = predict(model, set, 1);
  const auto y = answers.values<float>();
  const auto wanted = set.values<float>("y");
  double magnitudes = 0;
  for (size_t i = 0; i < y.size(); ++i) magnitudes += std::fabs(double{y[i]} - wanted[i]);
  CHECK(score(model, set, MetricKind::MeanAbsoluteError, 1) ==
        doctest::Approx(magnitudes / static_cast<double>(y.size())));
  CHECK(score(model, set, MetricKind::MeanSquaredError, 1) ==
        evaluate(model, set, 1).score->value);
  CHECK(test::error_text<ArgumentError>([&] {
          (void)score(model, set, MetricKind::AreaUnderCurve);
        }) == "the AUC needs data with labels and a model that answers [batch, classes]");
  CHECK(test::error_text<ArgumentError>([&] {
          (void)score(model, line(20, false), MetricKind::MeanAbsoluteError);
        }) == "the mean absolute error needs a target, or an input, in the shape of an answer");
  CHECK(!metric_of(MetricKind::MeanAbsoluteError).higher_is_better);
  CHECK(to_string(MetricScore{MetricKind::AreaUnderCurve, 0.98765}) == "AUC 0.9877");
}

TEST_CASE("metric: the AUC ranks the answers of two classes, and judges a run of fit") {
  const std::vector<float> x = {0, 1, 2, 0, 1, 1, 3, 0};
  const std::vector<int32_t> labels = {0, 0, 1, 1};
  data::Dataset set;
  set.add("x", Tensor::of<float>({4, 2}, x));
  set.add_target("label", Tensor::of<int32_t>({4}, labels));
  // Scores 0 - 1, 2 - 0, 1 - 1 and 3 - 0: of the pairs (-1, 0), (-1, 3), (2, 0) and (2, 3)
  // three are ordered correctly.
  Network other;
  const Value z = other.input("x", {2});
  Model model(linear(z, 1, {.bias = false, .label = "fc"}));
  model.set<float>("fc.weight", std::vector<float>{1, -1});
  CHECK(score(model, set, MetricKind::AreaUnderCurve, 1) == 0.75);
  Network pair;
  Model both(linear(pair.input("x", {2}), 2, {.bias = false, .label = "fc"}));
  both.set<float>("fc.weight", std::vector<float>{-1, 1, 0, 0});
  CHECK(score(both, set, MetricKind::AreaUnderCurve, 1) == 0.75);
  both.set<float>("fc.weight", std::vector<float>{NAN, 1, 0, 0});
  CHECK(std::isnan(score(both, set, MetricKind::AreaUnderCurve, 1)));
  CHECK(test::error_text<ArgumentError>([&] {
          (void)score(model, set.first(2), MetricKind::AreaUnderCurve);
        }) == "area_under_curve: expected scores in both sets, got 2 and 0");
  Network wide;
  const Model classifier(linear(wide.input("x", {2}), 3), loss::cross_entropy);
  CHECK(test::error_text<ArgumentError>([&] {
          (void)score(classifier, set, MetricKind::AreaUnderCurve);
        }) == "the AUC needs labels of 2 classes and answers of 1 or 2 numbers, got 2 and 3");

  Network trained;
  Model net2(linear(trained.input("x", {2}), 2), loss::cross_entropy);
  const FitResult result = fit(net2, set,
                               {.epochs = 3,
                                .batch = 4,
                                .validation = set,
                                .score = MetricKind::AreaUnderCurve,
                                .progress = false});
  CHECK(result.epochs.back().score == score(net2, set, MetricKind::AreaUnderCurve));
}

TEST_CASE(
    "metric: losses choose their targets among the targets, by name where there are several") {
  Network net;
  const Value x = net.input("x", {2});
  const Value y = linear(x, 3);
  const Model model(y, loss::cross_entropy);
  data::Dataset set;
  set.add("x", Tensor::of<float>({2, 2}, std::vector<float>{1, 2, 3, 4}));
  set.add("speaker", Tensor::of<int32_t>({2}, std::vector<int32_t>{0, 1}));
  set.add_target("kind", Tensor::of<int32_t>({2}, std::vector<int32_t>{2, 2}));
  Tape tape(model.graph().with_batch(2), model.parameters(), {.outputs = {*model.loss()}});
  Feed feed(inputs_of(tape), set);
  (void)feed.fill_from(0);
  CHECK(tape.input<int32_t>("labels")[1] == 2);
  CHECK(choose_metric(model.graph(), model.answer(), set)->column == 2u);
  // A second loss compares its own answer with the target of its name.
  const Value z = linear(x, 1);
  const Value error = node(MeanSquaredError{}, {z, net.input("size", {1})});
  const Value labels = net.input("kind", {}, DType::S32);
  const Model both({y, z}, node(SoftmaxCrossEntropy{}, {y, labels}) + error);
  data::Dataset turned;
  turned.add("x", Tensor::of<float>({2, 2}, std::vector<float>{1, 2, 3, 4}));
  turned.add_target("size", Tensor::of<float>({2, 1}, std::vector<float>{5, 6}));
  turned.add_target("kind", Tensor::of<int32_t>({2}, std::vector<int32_t>{2, 0}));
  const auto of_y = choose_metric(both.graph(), both.outputs()[0], turned);
  const auto of_z = choose_metric(both.graph(), both.outputs()[1], turned);
  REQUIRE(of_y);
  REQUIRE(of_z);
  CHECK(of_y->kind == MetricKind::Accuracy);
  CHECK(of_y->column == 2u);
  CHECK(of_z->kind == MetricKind::MeanSquaredError);
  CHECK(of_z->column == 1u);
}

TEST_CASE("metric: an ArgMax answers classes, of samples and of places") {
  for (const bool places : {false, true}) {
    CAPTURE(places);
    Network net;
    const Value x = places ? net.input("x", {3, 4}) : net.input("x", {4});
    Model model(node(Cast{.dtype = DType::F32}, {node(ArgMax{.axis = -1}, {linear(x, 5)})}));
    const int64_t labels = places ? 3 : 1;
    std::vector<float> values;
    for (int i = 0; i < 40 * labels * 4; ++i) {
      values.push_back(std::sin(static_cast<float>(i) * 1.7f));
    }
    const Shape inputs = places ? Shape{40, 3, 4} : Shape{40, 4};
    data::Dataset set;
    set.add("x", Tensor::of<float>(inputs, values));
    const Tensor answers = predict(model, set, 1);
    std::vector<int32_t> right;
    for (const float each : answers.values<float>()) {
      right.push_back(static_cast<int32_t>(each));
    }
    for (size_t i = 0; i < right.size(); i += 4) right[i] = (right[i] + 1) % 5;
    set.add_target("y", Tensor::of<int32_t>(answers.type.shape, right), places ? 0 : 5);
    CHECK(evaluate(model, set, 1).accuracy == 75);
    CHECK(compares_classes(model.graph(), set));
    const Model small = quantized(model, {}, set, 40, 1);
    const IntegerProgram program = small.integers(Requantization::FloatMultiply);
    CHECK(evaluate(program, set, 1).accuracy == evaluate(small, set, 1).accuracy);
    CHECK(test::error_text<GraphError>([&] { (void)with_loss(std::move(model), set); })
              .ends_with("an ArgMax has no gradient: end the model before it (qtape import "
                         "--end)"));
  }
}
