// Differences of answers with quantizers from those without.
#include "qtape/model/answer_errors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/model/evaluate.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

TEST_CASE("answer errors: relative to the deviation of each column") {
  AnswerErrors errors("y", {.extent = 2});
  // Columns 10, 14 and 1, 3: deviations 2 and 1.
  errors.add(std::vector<float>{10, 1, 14, 3}, std::vector<float>{11, 1, 13, 3.5f});
  const auto worst = errors.worst();
  REQUIRE(worst);
  CHECK(worst->label == "y");
  CHECK(worst->column == 0);
  CHECK(worst->error == doctest::Approx(0.5));
  // In two calls as in one.
  AnswerErrors parts("y", {.extent = 2});
  parts.add(std::vector<float>{10, 1}, std::vector<float>{11, 1});
  parts.add(std::vector<float>{14, 3}, std::vector<float>{13, 3.5f});
  CHECK(parts.worst() == worst);
}

TEST_CASE("answer errors: columns that do not vary, many columns, NaN") {
  AnswerErrors constant("y", {});
  constant.add(std::vector<float>{3, 3}, std::vector<float>{3, 4});
  CHECK(!constant.worst());
  CHECK(!AnswerErrors("y", {}).worst());
  AnswerErrors joined("y", {});
  joined.add(std::vector<float>{-1, 1, -1, 1}, std::vector<float>{-1, 1, -1, 2});
  REQUIRE(joined.worst());
  CHECK(joined.worst()->column == -1);
  CHECK(joined.worst()->error == doctest::Approx(0.5));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  joined.add(std::vector<float>{nan, 5}, std::vector<float>{1, nan});
  CHECK(joined.worst()->error == doctest::Approx(0.5));
}

TEST_CASE("answer errors: of two runs of an evaluator") {
  test::Net net({2, 1});
  const NodeId q = add_quantizer(
      net.graph, net.x,
      FakeQuantize{.bits = 2, .scheme = Scheme::Symmetric, .scale_mode = Fixed{}}, "x");
  net.graph.set_outputs({net.add(Relu{}, {q}, "y")});
  Parameters parameters(net.graph, 1);
  set_qparams(net.graph, parameters, q, std::vector<QParams<double>>{{1, 0}});
  // Two batches, with values that the codes -1 to 1 hold but for 0.25 in one of two samples.
  std::vector<float> x(2 * Evaluator::batch, 0);
  for (size_t i = 0; i < x.size(); i += 2) x[i] = 1.25f;
  data::Dataset data;
  data.add("x", Tensor::of<float>({std::ssize(x), 1}, x));
  Evaluator evaluator(net.graph, parameters, 1);
  AnswerComparison comparison(net.graph);
  evaluator.on_answers = [&](auto answers) { comparison.keep(answers); };
  (void)evaluator.run(data, mode::float_eval);
  CHECK(!comparison.worst());
  evaluator.on_answers = [&](auto answers) { comparison.compare(answers); };
  for (int run = 0; run < 2; ++run) {
    comparison.restart();
    (void)evaluator.run(data);
    const auto worst = comparison.worst();
    REQUIRE(worst);
    CHECK(worst->label == "y");
    CHECK(worst->column == -1);
    CHECK(worst->error == doctest::Approx(0.25 / std::sqrt(2) / 0.625));
  }
}

TEST_CASE("answer errors: classes are counted") {
  test::Net net({2, 3});
  net.graph.set_outputs({net.add(ArgMax{.axis = -1}, {net.x}, "class"), net.x});
  AnswerComparison comparison(net.graph);
  const std::vector<float> classes = {0, 2}, other = {1, 2}, values = {1, 2, 3, 4, 5, 7};
  const std::vector<std::span<const float>> floats = {classes, values}, codes = {other, values};
  comparison.keep(floats);
  comparison.restart();
  comparison.compare(codes);
  REQUIRE(comparison.worst());
  CHECK(comparison.worst()->error == 0);
  REQUIRE(comparison.changed());
  CHECK(comparison.changed()->label == "class");
  CHECK(comparison.changed()->share == 0.5);
}

TEST_CASE("answer errors: columns of axis 1 of answers with three axes") {
  test::Net net({1, 3, 200});
  net.graph.set_outputs({net.x});
  AnswerComparison comparison(net.graph);
  std::vector<float> values, other;
  for (int i = 0; i < 600; ++i) {
    // The middle row varies little, and is lost.
    const bool middle = i / 200 == 1;
    values.push_back(static_cast<float>(i % 7) * (middle ? 0.01f : 1.0f));
    other.push_back(middle ? 0.0f : values.back());
  }
  comparison.keep(std::vector<std::span<const float>>{values});
  comparison.restart();
  comparison.compare(std::vector<std::span<const float>>{other});
  REQUIRE(comparison.worst());
  CHECK(comparison.worst()->axis == 1);
  CHECK(comparison.worst()->column == 1);
  CHECK(comparison.worst()->error > 1);
}

TEST_CASE("answer errors: samples that are left out hide no error") {
  test::Net net({1, 1});
  net.graph.set_outputs({net.x});
  AnswerComparison comparison(net.graph);
  std::vector<float> values, other;
  for (int i = 0; i < 400; ++i) {
    values.push_back(i == 7 ? 1e6f : static_cast<float>(i % 2));
    other.push_back(i == 7 ? 1e6f : 0.5f);
  }
  const auto error = [&] {
    comparison.restart();
    comparison.compare(std::vector<std::span<const float>>{other});
    return comparison.worst()->error;
  };
  comparison.keep(std::vector<std::span<const float>>{values});
  CHECK(error() < 1e-4);
  comparison.leave_out({7});
  CHECK(error() == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("answer errors: the first rows are compared where there is no room for all") {
  test::Net net({2, 2});
  net.graph.set_outputs({net.x});
  AnswerComparison comparison(net.graph, 5);
  const std::vector<float> values = {1, -1, -1, 1, 9, 9}, other = {2, -1, -1, 1, 0, 0};
  comparison.keep(std::vector<std::span<const float>>{values});
  comparison.keep(std::vector<std::span<const float>>{values});
  comparison.compare(std::vector<std::span<const float>>{other});
  comparison.compare(std::vector<std::span<const float>>{other});
  REQUIRE(comparison.worst());
  CHECK(comparison.worst()->column == 0);
  CHECK(comparison.worst()->error == doctest::Approx(std::sqrt(0.5)));
}

TEST_CASE("answer errors: rare labels of a Sigmoid are left out") {
  test::Net net({2, 2});
  net.graph.set_outputs({net.add(Sigmoid{}, {net.x}, "y")});
  AnswerComparison comparison(net.graph);
  const std::vector<float> values = {0.001f, 0, 0, 1}, other = {0, 0, 0, 0.9f};
  comparison.keep(std::vector<std::span<const float>>{values});
  comparison.compare(std::vector<std::span<const float>>{other});
  REQUIRE(comparison.worst());
  CHECK(comparison.worst()->column == 1);
}
