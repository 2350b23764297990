// Operators of ONNX that are elementwise, select, repeat or multiply, compared with formulas.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <set>

#include "qtape/io/files.h"
#include "qtape/onnx/import/code_nodes.h"
#include "qtape/onnx/import/operators.h"
#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

const Numbers places = {-3, -1, -0.25, 0, 0.25, 1, 3};

/// Checks a model over x [1, 7] against a function of each element.
void check_function(const OnnxModel& model, const std::function<double(double)>& f) {
  std::vector<double> wanted;
  for (const float each : places) wanted.push_back(f(double{each}));
  check_close(answer(model, places, 1), wanted);
}

/// Checks that docs/limits.md has the line of that list.
void check_listed(std::string_view what, const std::set<std::string_view>& types) {
  const std::string line =
      fmt::format("- Operators of {}: `{}`.\n", what, fmt::join(types, "`, `"));
  const std::string page = read_file(fmt::format("{}/docs/limits.md", QTAPE_SOURCE), 1 << 20);
  CHECK_MESSAGE(page.find(line) != std::string::npos, line);
}

}  // namespace

TEST_CASE("onnx: docs/limits.md lists the operators") {
  const auto all = onnx_operators(), coded = onnx_code_operators();
  std::set<std::string_view> codes(coded.begin(), coded.end());
  codes.insert({"QuantizeLinear", "DequantizeLinear"});
  std::set<std::string_view> values;
  for (const std::string_view each : all) {
    if (!codes.contains(each)) values.insert(each);
  }
  std::set<std::string_view> folded, unfolded = values;
  for (const auto family : constant_folds()) {
    for (const OnnxOperator& each : family) {
      if (!values.contains(each.type)) folded.insert(each.type);
      unfolded.erase(each.type);
    }
  }
  for (const OnnxOperator& each : constant_conversions()) unfolded.erase(each.type);
  codes.insert({"MatMulInteger", "ConvInteger"});
  check_listed("values", values);
  check_listed("codes", codes);
  check_listed("values, but not of constants alone", unfolded);
  check_listed("constants alone", folded);
}

TEST_CASE("onnx: functions of each element") {
  const auto of = [](const char* type) { return OnnxModel({-1, 7}).node(type, {"x"}); };
  check_function(of("Erf"), [](double x) { return std::erf(x); });
  check_function(of("Abs"), [](double x) { return std::fabs(x); });
  check_function(of("Sin"), [](double x) { return std::sin(x); });
  check_function(of("Cos"), [](double x) { return std::cos(x); });
  check_function(of("Atan"), [](double x) { return std::atan(x); });
  check_function(of("Sign"), [](double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; });
  check_function(of("Floor"), [](double x) { return std::floor(x); });
  check_function(of("Ceil"), [](double x) { return std::ceil(x); });
  check_function(of("Round"), [](double x) { return std::nearbyint(x); });
  check_function(of("Softplus"), [](double x) { return std::log1p(std::exp(x)); });
  check_function(of("Softsign"), [](double x) { return x / (1 + std::fabs(x)); });
  check_function(of("Mish"), [](double x) { return x * std::tanh(std::log1p(std::exp(x))); });
  check_function(of("Elu").with("alpha", 0.5f),
                 [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); });
  check_function(of("Celu").with("alpha", 0.5f),
                 [](double x) { return x > 0 ? x : 0.5 * std::expm1(x / 0.5); });
  check_function(of("Selu"), [](double x) {
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
  });
  check_function(of("HardSigmoid"),
                 [](double x) { return std::min(1.0, std::max(0.0, 0.2 * x + 0.5)); });
  check_function(of("HardSigmoid").with("alpha", 0.25f).with("beta", 0.375f),
                 [](double x) { return std::min(1.0, std::max(0.0, 0.25 * x + 0.375)); });
  check_function(of("ThresholdedRelu").with("alpha", 0.0f),
                 [](double x) { return std::max(0.0, x); });
  check_function(of("ThresholdedRelu").with("alpha", 0.25f),
                 [](double x) { return x > 0.25 ? x : 0; });
  check_function(of("Shrink").with("lambd", 0.25f).with("bias", 0.125f), [](double x) {
    return x > 0.25 ? x - 0.125 : x < -0.25 ? x + 0.125 : 0;
  });
  check_function(of("Shrink").with("lambd", 0.5f).with("bias", 0.5f), [](double x) {
    return x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : 0;
  });
  check_function(of("Gelu"), [](double x) { return x * std::erfc(-x / std::sqrt(2)) / 2; });
  check_function(of("Clip"), [](double x) { return x; });
}

TEST_CASE("onnx: arithmetic with one number is a function of each element") {
  const auto of = [](const char* type, bool first, float c, const Extents& x = {-1, 7}) {
    return OnnxModel(x).node(type,
                             first ? OnnxInputs{number(c), "x"} : OnnxInputs{"x", number(c)});
  };
  check_function(of("Add", false, 2), [](double x) { return x + 2; });
  check_function(of("Sub", false, 2), [](double x) { return x - 2; });
  check_function(of("Sub", true, 2), [](double x) { return 2 - x; });
  check_function(of("Mul", true, 2.5f), [](double x) { return 2.5 * x; });
  check_function(of("Div", false, 4), [](double x) { return x / 4; });
  check_function(of("Pow", false, 3), [](double x) { return x * x * x; });
  check_function(of("Pow", false, 2), [](double x) { return x * x; });
  check_function(of("Max", true, 0.5f), [](double x) { return std::max(x, 0.5); });
  check_function(of("Max", false, 0), [](double x) { return std::max(x, 0.0); });
  check_function(of("Min", true, 0.5f), [](double x) { return std::min(x, 0.5); });
  CHECK(number_of<Affine>(of("Sub", true, 2)) == 1);
  CHECK(number_of<Relu>(of("Max", false, 0)) == 1);
  const Numbers positive = {0.5f, 1, 2, 4};
  const auto check = [&](const OnnxModel& model, double (*f)(double)) {
    std::vector<double> wanted;
    for (const float each : positive) wanted.push_back(f(double{each}));
    check_close(answer(model, positive, 4), wanted);
  };
  check(of("Div", true, 3, {-1, 1}), [](double x) { return 3 / x; });
  check(of("Pow", false, 0.5f, {-1, 1}), [](double x) { return std::sqrt(x); });
  check(of("Pow", false, -1.5f, {-1, 1}), [](double x) { return std::pow(x, -1.5); });
  check(OnnxModel({-1, 1}).node("Reciprocal", {"x"}), [](double x) { return 1 / x; });
}

TEST_CASE("onnx: an average over a window of the whole image is a global one") {
  const auto pool = [](const Extents& kernel) {
    OnnxModel model({-1, 2, 2, 3});
    return model.node("AveragePool", {"x"}).with("kernel_shape", kernel).imported();
  };
  const SavedModel whole = pool({2, 3});
  CHECK(number_of<GlobalAvgPool>(whole) == 1);
  CHECK(answer<float>(whole, {1, -1, 2, 0, 3, 0, 4, 0, 5, 0, 9, 7}, 1) == Numbers{4, 1});
  CHECK(number_of<GlobalAvgPool>(pool({2, 2})) == 0);
}

TEST_CASE("onnx: activations that are written as several nodes become one") {
  const auto gelu = [](bool divided, bool half_first, float root) {
    const onnx::TensorProto half = floats({1}, {0.5f});
    OnnxModel model({-1, 7});
    model.node(divided ? "Div" : "Mul", {"x", number(root)}, {"u"})
        .node("Erf", {"u"}, {"e"})
        .node("Add", {number(1), "e"}, {"g"});
    if (half_first) return model.node("Mul", {half, "x"}, {"h"}).node("Mul", {"h", "g"});
    return model.node("Mul", {"g", "x"}, {"h"}).node("Mul", {"h", half});
  };
  for (const bool divided : {false, true}) {
    for (const bool half_first : {false, true}) {
      const OnnxModel model = gelu(divided, half_first, divided ? 1.41421354f : 0.707106769f);
      check_function(model, [](double x) { return x * std::erfc(-x / std::sqrt(2)) / 2; });
      CHECK(number_of<Gelu>(model) == 1);
      CHECK(model.imported().graph.size() == 3);
    }
  }
  const OnnxModel mish = OnnxModel({-1, 7})
                             .node("Softplus", {"x"}, {"s"})
                             .node("Tanh", {"s"}, {"t"})
                             .node("Mul", {"x", "t"});
  check_function(mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); });
  CHECK(number_of<Mish>(mish) == 1);
  const OnnxModel swish = OnnxModel({-1, 7})
                              .floats("six", {}, {6})
                              .node("Add", {"x", number(3)}, {"a"})
                              .node("Clip", {"a", number(0), "six"}, {"c"})
                              .node("Mul", {"x", "c"}, {"m"})
                              .node("Div", {"m", "six"});
  check_function(swish, [](double x) { return x * std::min(6.0, std::max(0.0, x + 3)) / 6; });
  CHECK(number_of<HardSwish>(swish) == 1);
  // Another constant is another function.
  const OnnxModel other = gelu(false, false, 0.75f);
  check_function(other, [](double x) { return 0.5 * x * (1 + std::erf(0.75 * x)); });
  CHECK(number_of<Gelu>(other) == 0);
}

TEST_CASE("onnx: a choice by the sign of x between x and a x is a leaky ReLU") {
  struct Form {
    const char* type;
    OnnxInputs compared, inputs;
  };
  for (const Form& form : {Form{"Greater", {"x", "zero"}, {"c", "x", "m"}},
                           Form{"Less", {"zero", "x"}, {"c", "x", "m"}},
                           Form{"LessOrEqual", {"x", "zero"}, {"c", "m", "x"}}}) {
    const OnnxModel model = OnnxModel({-1, 7})
                                .floats("zero", {}, {0})
                                .floats("a", {}, {0.25f})
                                .node(form.type, form.compared, {"c"})
                                .node("Mul", {"a", "x"}, {"m"})
                                .node("Where", form.inputs);
    check_function(model, [](double x) { return x > 0 ? x : 0.25 * x; });
    CHECK(number_of<LeakyRelu>(model) == 1);
  }
  // The other way round, or by another number, it is another function.
  for (const float at : {0.0f, 1.0f}) {
    const OnnxModel model = OnnxModel({-1, 7})
                                .floats("a", {}, {0.25f})
                                .node("Greater", {"x", number(at)}, {"c"})
                                .node("Mul", {"a", "x"}, {"m"})
                                .node("Where", {"c", at == 0 ? "m" : "x", at == 0 ? "x" : "m"});
    check_function(model, [at](double x) {
      return at == 0 ? (x > 0 ? 0.25 * x : x) : (x > 1 ? x : 0.25 * x);
    });
    CHECK(number_of<LeakyRelu>(model) == 0);
  }
}

TEST_CASE("onnx: casts to the type of another value") {
  const OnnxModel model = OnnxModel({-1, 7})
                              .node("CastLike", {ints({3}), "x"}, {"three"})
                              .node("CastLike", {ints({2}), number(1)}, {"two"})
                              .node("CastLike", {"x", number(1)}, {"same"})
                              .node("Mul", {"same", "three"}, {"tripled"})
                              .node("Add", {"tripled", "two"});
  check_function(model, [](double x) { return 3 * x + 2; });
  const OnnxModel cut = OnnxModel({-1, 7})
                            .node("CastLike", {number(1.75f), ints({3})}, {"one"})
                            .node("Cast", {"one"}, {"float"})
                            .with("to", 1)
                            .node("Add", {"x", "float"});
  check_function(cut, [](double x) { return x + 1; });
  refused(OnnxModel({-1, 7}).node("CastLike", {"x", ints({1})}),
          "node 'the CastLike' (CastLike): casts to the type of integers are not supported");
}

TEST_CASE("onnx: comparisons and choices by values that depend on inputs") {
  const auto compared = [](const char* type) {
    return OnnxModel({-1, 7})
        .node(type, {"x", number(1)}, {"c"})
        .node("Cast", {"c"})
        .with("to", 1);
  };
  check_function(compared("Greater"), [](double x) { return x > 1 ? 1 : 0; });
  check_function(compared("Less"), [](double x) { return x < 1 ? 1 : 0; });
  check_function(compared("GreaterOrEqual"), [](double x) { return x >= 1 ? 1 : 0; });
  check_function(compared("LessOrEqual"), [](double x) { return x <= 1 ? 1 : 0; });
  check_function(compared("Equal"), [](double x) { return x == 1 ? 1 : 0; });
  const auto joined = [](const char* type) {
    return OnnxModel({-1, 7})
        .floats("low", {}, {-1})
        .node("Less", {"x", number(1)}, {"a"})
        .node("Greater", {"x", "low"}, {"b"})
        .node("Not", {"a"}, {"c"})
        .node(type, {"c", "b"}, {"d"})
        .node("Where", {"d", "x", "low"});
  };
  check_function(joined("And"), [](double x) { return x >= 1 ? x : -1; });
  check_function(joined("Or"), [](double x) { return x > -1 ? x : -1; });
  // Booleans that are constants.
  const OnnxModel masked = OnnxModel({-1, 7})
                               .floats("zero", {}, {0})
                               .integers("some", {1, 0, 1, 0, 1, 0, 1}, onnx::TensorProto::BOOL)
                               .node("Greater", {"x", "zero"}, {"a"})
                               .node("And", {"a", "some"}, {"b"})
                               .node("Where", {"b", "x", "zero"});
  check_close(answer(masked, places, 1), {0, 0, 0, 0, 0.25, 0, 3});
  const SavedModel imported = masked.imported();
  CHECK(!imported.parameters.entries()[0].trainable());
  const OnnxModel any = OnnxModel({-1, 7})
                            .node("Cast", {"x"}, {"b"})
                            .with("to", 9)
                            .node("Where", {"b", "x", "x"});
  check_function(any, [](double x) { return x; });
  const OnnxModel rows = OnnxModel({-1, 3})
                             .floats("zero", {}, {0})
                             .node("Greater", {"x", "zero"}, {"c"})
                             .node("Where", {"c", floats({3}, {5, 6, 7}), "x"});
  const Numbers x = {1, -2, 3, -4, 5, -6};
  check_close(answer(rows, x, 2), {5, -2, 7, -4, 6, -6});
  refused(OnnxModel({-1, 3}, 17, onnx::TensorProto::INT64).node("Equal", {"x", ints({0})}),
          "node 'the Equal' (Equal): it computes with indices, which can only look up "
          "rows of a table");
  refused(OnnxModel({-1, 3})
              .floats("low", {}, {-std::numeric_limits<float>::infinity()})
              .node("Greater", {"x", "low"}),
          "node 'the Greater' (Greater): the constant must be finite, got -inf: use a "
          "number near the other operand's, such as -30 in a mask of scores");
}

TEST_CASE("onnx: PRelu has one slope, or one for each channel") {
  const Numbers x = {-1, -2, 3, -4, 5, -6};
  check_close(
      answer(OnnxModel({-1, 3}).floats("s", {1}, {0.5f}).node("PRelu", {"x", "s"}), x, 2),
      {-0.5, -1, 3, -2, 5, -3});
  check_close(
      answer(OnnxModel({-1, 3}).floats("s", {3}, {0.5f, 2, 3}).node("PRelu", {"x", "s"}), x, 2),
      {-0.5, -4, 3, -2, 5, -18});
  // Channels of an image are last as fed: two pixels of three channels.
  const SavedModel image = OnnxModel({-1, 3, 1, 2})
                               .floats("s", {3, 1, 1}, {0.5f, 2, 3})
                               .node("PRelu", {"x", "s"})
                               .imported();
  check_close(answer(image, x, 1), {-0.5, -4, 3, -2, 5, -18});
  CHECK(image.parameters.get("s").type.shape == Shape{3});
  refused(OnnxModel({-1, 3}).floats("s", {2}, {0.5f, 2}).node("PRelu", {"x", "s"}),
          "node 'the PRelu' (PRelu): slopes of [2] for [1, 3] are not supported: use one "
          "slope, or one for each channel");
}

TEST_CASE("onnx: Softmax joins all later axes before opset 13") {
  const Numbers x = {1, 2, 3, 4, 0, 0};
  const auto softmax = [&](std::vector<std::vector<size_t>> rows) {
    std::vector<double> y(x.size());
    for (const auto& row : rows) {
      double sum = 0;
      for (const size_t i : row) sum += std::exp(double{x[i]});
      for (const size_t i : row) y[i] = std::exp(double{x[i]}) / sum;
    }
    return y;
  };
  const auto model = [](int64_t opset, int64_t axis) {
    return OnnxModel({-1, 2, 3}, opset).node("Softmax", {"x"}).with("axis", axis).imported();
  };
  check_close(answer(model(12, 1), x, 1), softmax({{0, 1, 2, 3, 4, 5}}));
  check_close(answer(model(12, 2), x, 1), softmax({{0, 1, 2}, {3, 4, 5}}));
  check_close(answer(model(13, 1), x, 1), softmax({{0, 3}, {1, 4}, {2, 5}}));
}

TEST_CASE("onnx: LRN divides by a power of the channels around") {
  const Numbers x = {1, 2, 3, 4, -5, 6};
  const OnnxModel model = OnnxModel({-1, 3})
                              .node("LRN", {"x"})
                              .with("size", 3)
                              .with("alpha", 0.5f)
                              .with("beta", 0.75f)
                              .with("bias", 2.0f);
  std::vector<double> wanted;
  for (int i = 0; i < 6; ++i) {
    double sum = 0;
    for (int k = std::max(0, i % 3 - 1); k <= std::min(2, i % 3 + 1); ++k) {
      const double each = double{x[static_cast<size_t>(i / 3 * 3 + k)]};
      sum += each * each;
    }
    wanted.push_back(double{x[static_cast<size_t>(i)]} / std::pow(2 + 0.5 / 3 * sum, 0.75));
  }
  check_close(answer(model, x, 2), wanted);
}

TEST_CASE("onnx: Where, Expand, Tile and reductions") {
  const Numbers x = {1, -2, 3, 4};
  const auto boolean = onnx::TensorProto::BOOL;
  check_close(answer(OnnxModel({-1, 2})
                         .integers("c", {1, 0}, boolean)
                         .node("Where", {"c", "x", floats({2}, {7, -INFINITY})}),
                     x, 2),
              {1, -INFINITY, 3, -INFINITY});
  check_close(answer(OnnxModel({-1, 2})
                         .integers("c", {1, 0}, boolean)
                         .node("Neg", {"x"}, {"n"})
                         .node("Where", {"c", "x", "n"}),
                     x, 2),
              {1, 2, 3, -4});
  check_close(answer(OnnxModel({-1, 2}).integers("t", {1, 2}).node("Tile", {"x", "t"}), x, 2),
              {1, -2, 1, -2, 3, 4, 3, 4});
  check_close(answer(OnnxModel({-1, 1, 2})
                         .integers("t", {3, 2})
                         .node("Expand", {"x", "t"}, {"e"})
                         .node("ReduceSum", {"e", ints({2})})
                         .with("keepdims", 0),
                     x, 2),
              {-1, -1, -1, 7, 7, 7});
  const auto reduced = [&](const char* type) {
    return answer(OnnxModel({-1, 2}).node(type, {"x"}).with("axes", Extents{1}), x, 2);
  };
  check_close(reduced("ReduceL1"), {3, 7});
  check_close(reduced("ReduceL2"), {std::sqrt(5.0), 5});
  check_close(reduced("ReduceSumSquare"), {5, 25});
  check_close(reduced("ReduceMin"), {-2, 3});
  check_close(reduced("ReduceLogSumExp"),
              {std::log(std::exp(1) + std::exp(-2)), std::log(std::exp(3) + std::exp(4))});
}

TEST_CASE("onnx: the index of the largest element, and rows of a table") {
  const OnnxModel best =
      OnnxModel({-1, 3}).node("ArgMax", {"x"}).with("axis", 1).with("keepdims", 0);
  check_close(answer(best, Numbers{1, 3, 3, 5, 4, -1}, 2), {1, 0});
  const OnnxModel least = OnnxModel({-1, 3}).node("ArgMin", {"x"}).with("axis", 1);
  check_close(answer(least, Numbers{1, 3, 1, 5, 4, -1}, 2), {0, 2});
  const SavedModel words = OnnxModel({-1, 2}, 17, onnx::TensorProto::INT64)
                               .floats("e.weight", {3, 2}, {1, 2, 3, 4, 5, 6})
                               .node("Gather", {"e.weight", "x"})
                               .imported();
  check_close(answer(words, std::vector<int32_t>{2, 0, 1, 1}, 2), {5, 6, 1, 2, 3, 4, 3, 4});
  CHECK(words.graph.find("e"));
  const SavedModel columns = OnnxModel({-1, 2}, 17, onnx::TensorProto::INT64)
                                 .integers("depth", {3})
                                 .integers("values", {0, 1})
                                 .node("OneHot", {"x", "depth", "values"}, {"h"})
                                 .node("Cast", {"h"})
                                 .with("to", 1)
                                 .imported();
  check_close(answer(columns, std::vector<int32_t>{2, 0}, 1), {0, 0, 1, 1, 0, 0});
  refused(OnnxModel({-1, 2}, 17, onnx::TensorProto::INT64)
              .floats("depth", {1}, {2.5f})
              .integers("values", {0, 1})
              .node("OneHot", {"x", "depth", "values"}),
          "node 'the OneHot' (OneHot): the depth must be an integer in 1..4096, got 2.5");
}

TEST_CASE("onnx: rows of a table for each position, repeated for each sample") {
  const OnnxModel model = OnnxModel({-1, 2, 1})
                              .floats("p.weight", {3, 2}, {1, 2, 3, 4, 5, 6})
                              .node("Shape", {"x"}, {"extents"})
                              .node("Slice", {"extents", ints({0}), ints({2})}, {"repeats"})
                              .node("Expand", {ints({2, 0}), "repeats"}, {"all"})
                              .node("Gather", {"p.weight", "all"}, {"positions"})
                              .node("Add", {"x", "positions"});
  check_close(answer(model, Numbers{0, 10, 20, 30}, 2), {5, 6, 11, 12, 25, 26, 31, 32});
}

TEST_CASE("onnx: a token that is tiled for each sample") {
  const auto with_token = [](const Extents& extents) {
    return OnnxModel({-1, 1, 2})
        .node("Shape", {"x"}, {"extents"})
        .node("Slice", {"extents", ints({0}), ints({1})}, {"batch"})
        .node("Concat", {"batch", ints({1, 1})}, {"repeats"})
        .with("axis", 0)
        .node("Tile",
              {floats(extents, Numbers(static_cast<size_t>(2 * extents[0]), 7)), "repeats"},
              {"tokens"})
        .node("Concat", {"tokens", "x"})
        .with("axis", 1);
  };
  CHECK(answer(with_token({1, 1, 2}), Numbers{1, 2, 3, 4}, 2) ==
        Numbers{7, 7, 1, 2, 7, 7, 3, 4});
  CHECK(error_of(with_token({2, 1, 2}))
            .find("axis 0 of [2, 1, 2], repeated for each sample, "
                  "must have the extent 1") != std::string::npos);
}

TEST_CASE("onnx: one weight in two layouts is two parameters, which a note says") {
  std::vector<std::string> notes;
  const OnnxModel model = OnnxModel({-1, 2})
                              .floats("w", {2, 2}, {1, 2, 3, 4})
                              .node("MatMul", {"x", "w"}, {"h"})
                              .node("Gemm", {"h", "w"}, {"y2"})
                              .with("transB", 1)
                              .node("Relu", {"y2"});
  (void)parse_onnx(model.bytes(), "m.onnx", &notes);
  CHECK(
      notes ==
      std::vector<std::string>{
          "'w' is read in different layouts: it becomes two parameters, 'w' and 'w.2', which train separately"});
}

TEST_CASE("onnx: a weight and its copies by Identity are one parameter") {
  std::vector<std::string> notes;
  const SavedModel shared = OnnxModel({-1, 2})
                                .floats("w", {2, 2}, {1, 2, 3, 4})
                                .node("Identity", {"w"}, {"second"})
                                .node("Identity", {"second"}, {"third"})
                                .node("MatMul", {"x", "w"}, {"a"})
                                .node("MatMul", {"a", "second"}, {"b"})
                                .node("MatMul", {"b", "third"})
                                .imported(&notes);
  REQUIRE(shared.parameters.entries().size() == 1);
  CHECK(shared.parameters.entries()[0].name == "w");
  CHECK(notes.empty());
}

TEST_CASE("onnx: a norm whose statistics would never change gets the default momentum") {
  std::vector<std::string> notes;
  const auto momentum = [&](float weight) {
    const SavedModel model = OnnxModel({-1, 2})
                                 .floats("g", {2}, {1, 1})
                                 .floats("b", {2}, {0, 0})
                                 .floats("m", {2}, {0, 0})
                                 .floats("v", {2}, {1, 1})
                                 .node("BatchNormalization", {"x", "g", "b", "m", "v"})
                                 .with("momentum", weight)
                                 .imported(&notes);
    for (const Node& node : model.graph.nodes()) {
      if (const auto* norm = std::get_if<BatchNorm>(&node.op)) return norm->momentum;
    }
    return -1.0;
  };
  CHECK(momentum(0.75f) == 0.25);
  CHECK(notes.empty());
  CHECK(momentum(1.0f) == 1.0 - double{0.9f});
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("momentum of 0.9 instead of 1, which would keep them") !=
        std::string::npos);
}

TEST_CASE("onnx: products with axes in another order") {
  const Numbers x = {1, 2, 3, 4, 5, 6};
  const Numbers w = {1, 0, 2, 0, 1, -1};  // [2, 3] or [3, 2]
  const auto einsum = [](const Extents& extents, const char* equation, bool first) {
    return OnnxModel({-1, 2, 3})
        .floats("w", extents, {1, 0, 2, 0, 1, -1})
        .node("Einsum", first ? OnnxInputs{"w", "x"} : OnnxInputs{"x", "w"})
        .with("equation", equation)
        .imported();
  };
  // x [[1, 2, 3], [4, 5, 6]], w [[1, 0, 2], [0, 1, -1]] or [[1, 0], [2, 0], [1, -1]].
  check_close(answer(einsum({2, 3}, "bij,kj->bik", false), x, 1), {7, -1, 16, -1});
  check_close(answer(einsum({3, 2}, "bij,jk->bik", false), x, 1), {8, -3, 20, -6});
  check_close(answer(einsum({3, 2}, "bij, jk -> bki", false), x, 1), {8, 20, -3, -6});
  check_close(answer(einsum({3, 2}, "ki,bij->bkj", true), x, 1),
              {1, 2, 3, 2, 4, 6, -3, -3, -3});
  check_close(
      answer(OnnxModel({-1, 2, 3}).floats("w", {3, 2}, w).node("MatMul", {"w", "x"}), x, 1),
      {1, 2, 3, 2, 4, 6, -3, -3, -3});
  check_close(
      answer(OnnxModel({-1, 2, 3}).node("Einsum", {"x", "x"}).with("equation", "bij,bkj->bik"),
             x, 1),
      {14, 32, 32, 77});
  refused(OnnxModel({-1, 2, 3}).node("Einsum", {"x"}).with("equation", "bij->bji"),
          "node 'the Einsum' (Einsum): the equation bij->bji is not supported: use a "
          "product of two operands with named axes");
}
