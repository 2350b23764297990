// Every plain op against a loop in double, its gradients against differences, its refusals word
// for word.
#include <doctest/doctest.h>

#include <limits>

#include "qtape/tests/support/op_checks.h"
#include "qtape/tests/support/op_references.h"

namespace qtape::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

/// Extents that leave remainders of vectors, words and blocks.
const std::vector<int64_t> lengths = {1, 3, 17, 1025};

template <class X>
void check_broadcast_threads() {
  for (const auto& shapes : std::vector<std::vector<Shape>>{{{70000}, {70000}},
                                                            {{70000}, {}},
                                                            {{300, 301}, {301}},
                                                            {{300, 301}, {300, 1}},
                                                            {{20, 70, 80}, {20, 1, 80}}}) {
    check_threads(X{}, shapes);
  }
}

template <class X>
void check_broadcasts() {
  std::vector<std::vector<Shape>> pairs = {{{}, {}},
                                           {{3, 4}, {}},
                                           {{}, {5}},
                                           {{3, 4}, {4}},
                                           {{4}, {3, 4}},
                                           {{3, 1}, {3, 4}},
                                           {{3, 1}, {1, 4}},
                                           {{2, 3, 4}, {3, 4}},
                                           {{2, 3, 4}, {2, 1, 4}},
                                           {{2, 1, 4}, {3, 1}},
                                           {{2, 1, 3, 1}, {5, 1, 4}},
                                           {{1, 4}, {4}},
                                           {{1}, {1, 1}},
                                           {{2, 3, 2, 2}, {3, 1, 2}},
                                           {{0, 3}, {3}},
                                           {{1, 3}, {0, 3}},
                                           {{2, 0}, {2, 1}},
                                           {{40, 300}, {300}},
                                           {{300, 40}, {300, 1}},
                                           {{3, 2, 1}, {2, 5}}};
  for (int64_t n : lengths) pairs.insert(pairs.end(), {{{n}, {n}}, {{n}, {1}}, {{2, n}, {n}}});
  for (const auto& shapes : pairs) {
    CAPTURE(to_string(shapes[0]));
    CAPTURE(to_string(shapes[1]));
    check_case<X>({X{}, shapes, binary_reference<X>, 0.5, 2});
    const bool fits = X{}.infer(std::vector{TensorType{DType::F32, shapes[0]},
                                            TensorType{DType::F32, shapes[1]}}) ==
                      TensorType{DType::F32, broadcast_shape(shapes[0], shapes[1])};
    CHECK(fits);
  }
  refuses(X{}, {f32({8, 4}), f32({3})}, "shapes do not broadcast: [8, 4] and [3]");
  refuses(X{}, {f32({4}), f64({4})}, "dtypes differ: f32 and f64");
  refuses(X{}, {s32({4}), s32({4})}, "expected f32 or f64, got s32");
  check_broadcast_threads<X>();
}

}  // namespace

TEST_CASE("broadcast: Add") { check_broadcasts<Add>(); }
TEST_CASE("broadcast: Sub") { check_broadcasts<Sub>(); }
TEST_CASE("broadcast: Mul") { check_broadcasts<Mul>(); }
TEST_CASE("broadcast: Div") { check_broadcasts<Div>(); }

TEST_CASE("mul and div: IEEE results at zeros, infinities and NaN") {
  const std::vector<TensorType> types = {f32({4}), f32({4})};
  const std::vector<Values> x = {{1, 0, inf, nan}, {0, 0, inf, 1}};
  check_close(OpRun<Div>({}, types, x).forward(), {inf, nan, nan, nan}, 0);
}

TEST_CASE("broadcast: one node as both operands gets both gradients") {
  const std::vector<TensorType> types = {f64({3}), f64({3})};
  Values x = {1, 2, 3};
  Values dy = {1, 1, 10};
  Values dx(3, nan);
  const auto bytes = [](Values& values) { return reinterpret_cast<std::byte*>(values.data()); };
  const std::vector<std::byte*> operands = {bytes(x), bytes(x)};
  const std::vector<Gradient> gradients = {{bytes(dx), false}, {bytes(dx), true}};
  Binding b;
  b.inputs = types;
  b.output = f64({3});
  b.operands = operands;
  b.dy = bytes(dy);
  b.gradients = gradients;
  Mul{}.backward(b)({});
  check_bits(dx, {2, 4, 60});
}

namespace {

template <class X>
void check_reductions() {
  const std::vector<std::pair<Shape, std::vector<int>>> table = {{{}, {}},
                                                                 {{3, 4}, {}},
                                                                 {{3, 4}, {0}},
                                                                 {{3, 4}, {1}},
                                                                 {{2, 3, 4}, {1}},
                                                                 {{2, 3, 4}, {0, -1}},
                                                                 {{2, 3, 4}, {-3, 1}},
                                                                 {{2, 3, 2, 3}, {0, 2}},
                                                                 {{2, 3, 2, 3}, {1, 3}},
                                                                 {{5, 1, 3}, {1}},
                                                                 {{3, 130}, {1}},
                                                                 {{3, 2, 70}, {0, 2}},
                                                                 {{70, 3}, {0}},
                                                                 {{2, 300}, {0}},
                                                                 {{0, 3}, {1}}};
  for (const auto& [shape, axes] : table) {
    check_case<X>({{.axes = axes}, {shape}, reduce_reference<X>});
    check_case<X>({{.axes = axes, .keep_dims = true}, {shape}, reduce_reference<X>});
  }
  for (int64_t n : lengths) check_case<X>({{}, {{n}}, reduce_reference<X>});
  for (const auto& axes : std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {0, 2}}) {
    check_threads(X{.axes = axes}, {{20, 70, 80}});
  }
  const TensorType x = f32({2, 3, 4});
  CHECK(X{.axes = {0, -1}}.infer(std::vector{x}) == f32({3}));
  CHECK(X{.axes = {0, -1}, .keep_dims = true}.infer(std::vector{x}) == f32({1, 3, 1}));
  CHECK(X{}.infer(std::vector{x}) == f32({}));
  refuses(X{.axes = {3}}, {x}, "axis 3 is out of range for rank 3");
  refuses(X{.axes = {1, -2}}, {x}, "axis -2 is given twice");
  refuses(X{}, {s32({2})}, "expected f32 or f64, got s32");
}

}  // namespace

TEST_CASE("add_bias: values, gradients and refusals") {
  for (const auto& shapes : std::vector<std::vector<Shape>>{{{5, 7}, {7}},
                                                            {{2, 3, 4}, {4}},
                                                            {{6}, {6}},
                                                            {{4, 1}, {1}},
                                                            {{64, 256}, {256}},
                                                            {{3, 1025}, {1025}},
                                                            {{0, 3}, {3}},
                                                            {{3, 0}, {0}}}) {
    check_case<AddBias>({{}, shapes, bias_reference});
  }
  check_threads(AddBias{}, {{300, 301}, {301}});
  refuses(AddBias{}, {f32({8, 4}), f32({3})}, "b must be [4], the last extent of x, got [3]");
  refuses(AddBias{}, {f32({8, 4}), f32({1, 4})},
          "b must be [4], the last extent of x, got [1, 4]");
  refuses(AddBias{}, {f32({}), f32({1})}, "x needs rank >= 1, got a scalar");
  refuses(AddBias{}, {f32({4}), f64({4})}, "dtypes differ: f32 and f64");
}

TEST_CASE("views: Reshape, Flatten and StopGradient") {
  for (int64_t n : lengths) check_case<Reshape>({{.shape = {1, -1}}, {{n}}, same<Reshape>});
  check_case<Flatten>({{}, {{2, 3, 4}}, same<Flatten>});
  check_case<StopGradient>({{}, {{2, 3}}, same<StopGradient>});
  CHECK(Reshape{.shape = {4, -1}}.infer(std::vector{s32({2, 6})}) == s32({4, 3}));
  CHECK(Reshape{}.infer(std::vector{f32({1, 1})}) == f32({}));
  CHECK(Reshape{.shape = {0, 5}}.infer(std::vector{f32({0})}) == f32({0, 5}));
  refuses(Reshape{.shape = {4, -1}}, {f32({2, 3})}, "cannot reshape [2, 3] to [4, -1]");
  refuses(Reshape{.shape = {7}}, {f32({2, 3})}, "cannot reshape [2, 3] to [7]");
  refuses(Reshape{.shape = {0, -1}}, {f32({0})}, "cannot reshape [0] to [0, -1]");
  refuses(Reshape{.shape = {-1, -1}}, {f32({2})}, "at most one extent may be -1, got [-1, -1]");
  refuses(Reshape{.shape = {-2}}, {f32({2})}, "extent -2 of shape [-2] is negative");
  CHECK(Flatten{}.infer(std::vector{f32({2, 3, 4})}) == f32({2, 12}));
  CHECK(Flatten{.start_axis = 0}.infer(std::vector{f32({})}) == f32({1}));
  CHECK(Flatten{.start_axis = -2}.infer(std::vector{f32({2, 3, 4})}) == f32({2, 12}));
  CHECK(Flatten{.start_axis = 1}.infer(std::vector{f32({5})}) == f32({5, 1}));
  refuses(Flatten{.start_axis = 3}, {f32({2, 3})}, "start_axis 3 is out of range for rank 2");
}

TEST_CASE("views: f16 gradients add up in float") {
  const TensorType type{DType::F16, Shape{2}};
  OpRun<Reshape> run({.shape = {2}}, {type}, {{1, 2}}, {.accumulate = true});
  check_bits(run.backward({0.25, 3})[0], {0.75, 3.5});
}

TEST_CASE("transpose: values, gradients and refusals") {
  const std::vector<std::pair<Shape, std::vector<int>>> table = {{{}, {}},
                                                                 {{5}, {}},
                                                                 {{3, 4}, {}},
                                                                 {{3, 4}, {0, 1}},
                                                                 {{33, 17}, {1, 0}},
                                                                 {{2, 3, 4}, {}},
                                                                 {{2, 3, 4}, {1, 2, 0}},
                                                                 {{2, 3, 4}, {1, 0, -1}},
                                                                 {{2, 3, 1, 4}, {0, 3, 1, 2}},
                                                                 {{2, 3, 4, 5}, {3, 1, 0, 2}},
                                                                 {{0, 3}, {}},
                                                                 {{1, 1025}, {}}};
  for (const auto& [shape, permutation] : table) {
    check_case<Transpose>({{.permutation = permutation}, {shape}, transpose_reference});
  }
  check_threads(Transpose{}, {{300, 301}});
  check_threads(Transpose{.permutation = {0, 3, 1, 2}}, {{9, 20, 20, 30}});
  const std::vector<TensorType> bytes = {{DType::U8, Shape{2, 3}}};
  check_bits(OpRun<Transpose>({}, bytes, {{1, 2, 3, 4, 5, 6}}).forward(), {1, 4, 2, 5, 3, 6});
  refuses(Transpose{.permutation = {0}}, {f32({2, 3})}, "permutation names 1 axes, rank is 2");
  refuses(Transpose{.permutation = {0, -2}}, {f32({2, 3})}, "axis 0 is given twice");
  refuses(Transpose{.permutation = {0, 2}}, {f32({2, 3})}, "axis 2 is out of range for rank 2");
}

TEST_CASE("reductions: Sum") {
  check_reductions<Sum>();
  check_case<Sum>({{.axes = {0}}, {{0, 3}}, reduce_reference<Sum>});
}

TEST_CASE("reductions: Mean") {
  check_reductions<Mean>();
  refuses(Mean{}, {f32({0, 3})}, "the mean of no elements, x is [0, 3]");
}

TEST_CASE("reductions: Max") {
  check_reductions<Max>();
  refuses(Max{}, {f32({0, 3})}, "the maximum of no elements, x is [0, 3]");
}

TEST_CASE("max: the first of equals gets the gradient, NaN wins") {
  OpRun<Max> rows({.axes = {1}}, {f32({4, 3})},
                  {{1, 2, 2, nan, 9, nan, -inf, -inf, -inf, 0, -0.0, 0}});
  check_close(rows.forward(), {2, nan, -inf, 0}, 0);
  check_bits(rows.backward({1, 2, 3, 4})[0], {0, 1, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0});
  Values x(200, 1.0);
  x[70] = x[130] = x[195] = 5;
  OpRun<Max> all({}, {f32({200})}, {x});
  all.forward();
  const Values dx = all.backward({1})[0];
  CHECK(dx[70] == 1);
  CHECK(std::count(dx.begin(), dx.end(), 0.0) == 199);
  for (size_t peak : std::vector<size_t>{0, 63, 64, 191, 192, 199}) {
    CAPTURE(peak);
    Values alone(200, 1.0);
    alone[peak] = 2;
    check_bits(OpRun<Max>({}, {f32({200})}, {alone}).forward(), {2});
  }
}

TEST_CASE_TEMPLATE("softmax: values, gradients and refusals", X, Softmax, LogSoftmax) {
  for (int64_t n : lengths) check_case<X>({{}, {{3, n}}, softmax_reference<X>, -3, 3});
  for (const Shape& shape :
       std::vector<Shape>{{4}, {2, 3, 4}, {3, 70}, {2, 5, 3, 2}, {0, 3}, {3, 0}}) {
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis) {
      check_case<X>({{.axis = axis}, {shape}, softmax_reference<X>, -3, 3});
    }
    check_threads(X{}, {{300, 301}});
    check_threads(X{.axis = 1}, {{20, 70, 80}});
  }
  refuses(X{.axis = 2}, {f32({2, 3})}, "axis 2 is out of range for rank 2");
  refuses(X{}, {f32({})}, "axis -1 is out of range for rank 0");
  refuses(X{}, {s32({2})}, "expected f32 or f64, got s32");
}

TEST_CASE("softmax: large operands do not overflow, NaN stays in its line") {
  const Values y =
      OpRun<Softmax>({}, {f32({3, 2})}, {{1000, 0, -1000, -1000, nan, 1}}).forward();
  check_close(y, {1, 0, 0.5, 0.5, nan, nan}, 0);
  const Values log_y = OpRun<LogSoftmax>({}, {f32({1, 2})}, {{1000, 0}}).forward();
  check_close(log_y, {0, -1000}, 0);
}

TEST_CASE("softmax_cross_entropy: values, gradients and refusals") {
  using X = SoftmaxCrossEntropy;
  for (double e : {0.0, 0.1}) {
    for (int64_t n : lengths) {
      check_case<X>({{.label_smoothing = e}, {{3, n}, {3}}, cross_entropy_reference, -3, 3});
      check_case<X>({{.label_smoothing = e}, {{n, 4}, {n}}, cross_entropy_reference, -3, 3});
    }
    check_threads(X{.label_smoothing = e}, {{300, 301}, {300}});
  }
  CHECK(X{}.infer(std::vector{f64({4, 10}), s32({4})}) == f64({}));
  refuses(X{}, {f32({4, 10}), f32({4})}, "labels must be s32, got f32");
  refuses(X{}, {f32({4}), s32({4})}, "logits must be [n, classes], got [4]");
  refuses(X{}, {f32({4, 10}), s32({3})}, "labels must be [4], one per row, got [3]");
  refuses(X{}, {f32({4, 0}), s32({4})}, "n and classes must be at least 1, got logits [4, 0]");
  refuses(X{.label_smoothing = 1}, {f32({4, 10}), s32({4})},
          "label_smoothing must be in [0, 1), got 1");
  refuses(X{.label_smoothing = nan}, {f32({4, 10}), s32({4})},
          "label_smoothing must be in [0, 1), got nan");
}

TEST_CASE("softmax_cross_entropy: the first label outside is the fault, its row is left out") {
  OpRun<SoftmaxCrossEntropy> run({}, {f64({3, 2}), s32({3})}, {{0, 0, 0, 0, 0, 0}, {1, -1, 2}});
  check_close(run.forward(), {std::log(2.0) / 3}, 1e-15);
  REQUIRE(run.status().fault.text != nullptr);
  CHECK(std::string(run.status().fault.text) ==
        "label {value} at row {index} is outside the classes");
  CHECK(run.status().fault.index == 1);
  CHECK(run.status().fault.value == -1);
  check_close(run.backward({3})[0], {0.5, -0.5, 0, 0, 0, 0}, 1e-15);
}

TEST_CASE("mean_squared_error: values, gradients and refusals") {
  using X = MeanSquaredError;
  for (int64_t n : lengths) check_case<X>({{}, {{n}, {n}}, squared_reference});
  check_case<X>({{}, {{3, 5}, {3, 5}}, squared_reference});
  check_threads(X{}, {{300, 301}, {300, 301}});
  refuses(X{}, {f32({3}), f32({1, 3})}, "shapes differ: [3] and [1, 3]");
  refuses(X{}, {f32({0}), f32({0})}, "the mean of no elements, prediction is [0]");
  refuses(X{}, {f32({3}), f64({3})}, "dtypes differ: f32 and f64");
}

TEST_CASE("dropout: the rate, the scale and the same mask in backward") {
  const Values x(4099, 2.0);
  OpRun<Dropout> run({.rate = 0.25}, {f64({4099})}, {x});
  const Values y = run.forward();
  CHECK(run.status().applied);
  const auto dropped = std::count(y.begin(), y.end(), 0.0);
  CHECK(dropped > 4099 * 0.22);
  CHECK(dropped < 4099 * 0.28);
  CHECK(std::count(y.begin(), y.end(), 2.0 * (1.0 / 0.75)) == 4099 - dropped);
  ++run.step().number;
  Values dx = run.backward(Values(4099, 2.0))[0];
  check_bits(dx, y);
  CHECK(run.forward() != y);
}

TEST_CASE("dropout: draws follow seed, step and element, not threads or memory") {
  for (int64_t n :
       {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{1025}}) {
    CAPTURE(n);
    const std::vector<TensorType> types = {f64({n})};
    const std::vector<Values> x = {random_values(n, 3)};
    const Values y = OpRun<Dropout>({.seed = 4}, types, x).forward();
    check_bits(OpRun<Dropout>({.seed = 4}, types, x, {.in_place = true}).forward(), y);
    if (n >= 64) CHECK(OpRun<Dropout>({.seed = 5}, types, x).forward() != y);
    check_gradients<Dropout>({{.rate = 0.4}, {{n}}, nullptr});
  }
  check_threads(Dropout{}, {{70001}});
}

TEST_CASE("dropout: copies outside of training and at rate 0") {
  OpRun<Dropout> run({}, {f32({3})}, {{1, nan, inf}});
  run.step().mode = mode::eval;
  check_close(run.forward(), {1, nan, inf}, 0);
  CHECK_FALSE(run.status().applied);
  check_bits(run.backward({1, 2, 3})[0], {1, 2, 3});
  check_case<Dropout>({{.rate = 0}, {{17}}, same<Dropout>});
  refuses(Dropout{.rate = 1}, {f32({3})}, "rate must be in [0, 1), got 1");
  refuses(Dropout{.rate = nan}, {f32({3})}, "rate must be in [0, 1), got nan");
  refuses(Dropout{}, {s32({3})}, "expected f32 or f64, got s32");
}

TEST_CASE("cast: to integers rounds half to even and saturates") {
  const std::vector<TensorType> types = {f64({10})};
  const std::vector<Values> x = {{0.5, 1.5, 2.5, -0.5, -1.5, nan, inf, -inf, 1e300, 126.6}};
  const auto to = [&](DType dtype) {
    return OpRun<Cast>({.dtype = dtype}, types, x).forward();
  };
  check_close(to(DType::S8), {0, 2, 2, 0, -2, 0, 127, -128, 127, 127}, 0);
  check_close(to(DType::U8), {0, 2, 2, 0, 0, 0, 255, 0, 255, 127}, 0);
  check_close(to(DType::S16), {0, 2, 2, 0, -2, 0, 32767, -32768, 32767, 127}, 0);
  check_close(to(DType::U16), {0, 2, 2, 0, 0, 0, 65535, 0, 65535, 127}, 0);
  check_close(to(DType::S32), {0, 2, 2, 0, -2, 0, 2147483647, -2147483648.0, 2147483647, 127},
              0);
}

TEST_CASE("cast: every pair of dtypes keeps small integers") {
  const auto count = static_cast<size_t>(DType::S64);
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      for (int64_t n : lengths) {
        const TensorType type{static_cast<DType>(from), Shape{n}};
        Values x(static_cast<size_t>(n));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 128);
        const Cast cast{.dtype = static_cast<DType>(to)};
        CHECK(cast.infer(std::vector{type}) == TensorType{cast.dtype, type.shape});
        check_bits(OpRun<Cast>(cast, {type}, {x}).forward(), x);
      }
    }
  }
  refuses(Cast{.dtype = DType::S64}, {f32({1})}, "s64 cannot be cast");
}

TEST_CASE("cast: gradients go back between floats only") {
  for (DType from : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    for (DType to : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
      const std::vector<TensorType> types = {{from, Shape{3}}};
      OpRun<Cast> run({.dtype = to}, types, {{1, 2, 3}});
      check_bits(run.backward({0.5, -2, 8})[0], {0.5, -2, 8});
      OpRun<Cast> added({.dtype = to}, types, {{1, 2, 3}}, {.accumulate = true});
      check_bits(added.backward({0.5, -2, 8})[0], {1, -1.5, 8.5});
    }
  }
  OpRun<Cast> to_integer({.dtype = DType::S8}, {f32({1})}, {{1}}, {.accumulate = true});
  check_bits(to_integer.backward({3})[0], {0.5});
}

}  // namespace qtape::test
