// Every plain op against a loop in double, its gradients against differences, its refusals word
// for word.
#include <doctest/doctest.h>

#include <limits>

#include "qtape/ops/core/isa.h"
#include "qtape/ops/ops.h"
#include "qtape/tests/support/op_run.h"

namespace qtape::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

/// One way to use an op. `reference` is what forward must give.
template <class X>
struct Case {
  X op;
  std::vector<Shape> shapes;
  Values (*reference)(const X& op, const std::vector<Shape>& shapes, const std::vector<Values>& x);
  double low = -1;
  double high = 1;
};

/// Extents that leave remainders of vectors, words and blocks.
const std::vector<int64_t> lengths = {1, 3, 17, 1025};

bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}

void check_close(const Values& got, const Values& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    REQUIRE(close(got[i], expected[i], tolerance));
  }
}

void check_bits(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  CHECK((got.empty() || std::memcmp(got.data(), expected.data(), 8 * got.size()) == 0));
}

/// Operands for `op`: uniform values, and labels for the second operand of a cross entropy.
template <class X>
std::pair<std::vector<TensorType>, std::vector<Values>> make_operands(const Case<X>& c,
                                                                      DType dtype) {
  std::pair<std::vector<TensorType>, std::vector<Values>> made;
  for (size_t i = 0; i < c.shapes.size(); ++i) {
    const bool labels = std::is_same_v<X, SoftmaxCrossEntropy> && i == 1;
    made.first.push_back({labels ? DType::S32 : dtype, c.shapes[i]});
    const double classes = labels ? static_cast<double>(c.shapes[0][1]) : 0;
    Values values = random_values(c.shapes[i].elements(), 5 + i, labels ? 0 : c.low,
                                  labels ? classes : c.high);
    for (double& x : values) x = labels ? std::floor(x) : double{static_cast<float>(x)};
    made.second.push_back(std::move(values));
  }
  return made;
}

/// Central differences of sum(dy * y) by every element of operand `i`.
template <class X>
Values differences(const X& op, const std::vector<TensorType>& types,
                   const std::vector<Values>& operands, size_t i, const Values& dy) {
  constexpr double h = 1e-6;
  const auto loss = [&](size_t at, double by) {
    std::vector<Values> moved = operands;
    moved[i][at] += by;
    const Values y = OpRun<X>(op, types, moved).forward();
    double sum = 0;
    for (size_t k = 0; k < y.size(); ++k) sum += dy[k] * y[k];
    return sum;
  };
  Values result;
  for (size_t at = 0; at < operands[i].size(); ++at) {
    result.push_back((loss(at, h) - loss(at, -h)) / (2 * h));
  }
  return result;
}

template <class X>
std::vector<Values> gradients(const X& op, const std::vector<TensorType>& types,
                              const std::vector<Values>& operands, const Values& dy,
                              RunOptions options = {}) {
  OpRun<X> run(op, types, operands, options);
  run.forward();
  return run.backward(dy);
}

template <class X>
void check_gradients(const Case<X>& c) {
  const auto [types, operands] = make_operands(c, DType::F64);
  const Values dy = random_values(c.op.infer(types).elements(), 99);
  const auto plain = gradients(c.op, types, operands, dy);
  const auto shared = gradients(c.op, types, operands, dy, {.in_place = true});
  const auto added = gradients(c.op, types, operands, dy, {.accumulate = true});
  for (size_t i = 0; i < types.size(); ++i) {
    CAPTURE(i);
    if (plain[i].empty()) continue;
    check_bits(shared[i], plain[i]);
    Values more = plain[i];
    for (double& x : more) x += 0.5;
    check_close(added[i], more, 1e-15);
    const auto others =
        gradients(c.op, types, operands, dy, {.unwanted = static_cast<int>(1 - i)});
    check_bits(others[i], plain[i]);
    if (plain[i].size() <= 64) {
      check_close(plain[i], differences(c.op, types, operands, i, dy), 1e-7);
    }
  }
}

template <class X>
void check_case(const Case<X>& c) {
  for (const Shape& shape : c.shapes) CAPTURE(to_string(shape));
  for (DType dtype : {DType::F64, DType::F32}) {
    const auto [types, operands] = make_operands(c, dtype);
    const double tolerance = dtype == DType::F64 ? 1e-13 : 3e-7;
    const Values y = OpRun<X>(c.op, types, operands).forward();
    check_close(y, c.reference(c.op, c.shapes, operands), tolerance);
    check_bits(OpRun<X>(c.op, types, operands, {.in_place = true}).forward(), y);
  }
  check_gradients(c);
}

/// Bits at one thread, at three and in place, for f32 operands that are worth several threads.
template <class X>
void check_threads(const X& op, const std::vector<Shape>& shapes) {
  const auto [types, operands] = make_operands(Case<X>{op, shapes, nullptr}, DType::F32);
  const Values dy = random_values(op.infer(types).elements(), 99);
  OpRun<X> one(op, types, operands);
  OpRun<X> three(op, types, operands, {.threads = 3});
  check_bits(three.forward(), one.forward());
  const auto expected = one.backward(dy);
  const auto got = three.backward(dy);
  for (size_t i = 0; i < expected.size(); ++i) check_bits(got[i], expected[i]);
}

template <class X>
void refuses(const X& op, const std::vector<TensorType>& types, const char* text) {
  CHECK_THROWS_WITH_AS(op.infer(types), text, GraphError);
}

TensorType f32(std::initializer_list<int64_t> extents) { return {DType::F32, Shape(extents)}; }
TensorType f64(std::initializer_list<int64_t> extents) { return {DType::F64, Shape(extents)}; }
TensorType s32(std::initializer_list<int64_t> extents) { return {DType::S32, Shape(extents)}; }

/// Coordinates of the element with number `index`.
std::vector<int64_t> unravel(int64_t index, const Shape& shape) {
  std::vector<int64_t> at(static_cast<size_t>(shape.rank()));
  for (int i = shape.rank() - 1; i >= 0; --i) {
    at[static_cast<size_t>(i)] = index % shape[i];
    index /= shape[i];
  }
  return at;
}

/// The number of the element of `shape` that goes with the coordinates `at` of a larger one.
size_t broadcast_index(const std::vector<int64_t>& at, const Shape& shape) {
  int64_t index = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const size_t from = at.size() - static_cast<size_t>(shape.rank() - i);
    index = index * shape[i] + (shape[i] == 1 ? 0 : at[from]);
  }
  return static_cast<size_t>(index);
}

template <class X>
Values binary_reference(const X&, const std::vector<Shape>& shapes, const std::vector<Values>& x) {
  const Shape y = broadcast_shape(shapes[0], shapes[1]);
  Values result;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const auto at = unravel(i, y);
    const double a = x[0][broadcast_index(at, shapes[0])];
    const double b = x[1][broadcast_index(at, shapes[1])];
    result.push_back(std::is_same_v<X, Add>   ? a + b
                     : std::is_same_v<X, Sub> ? a - b
                     : std::is_same_v<X, Mul> ? a * b
                                              : a / b);
  }
  return result;
}

template <class X>
void check_broadcasts() {
  std::vector<std::vector<Shape>> pairs = {
      {{}, {}},           {{3, 4}, {}},          {{}, {5}},           {{3, 4}, {4}},
      {{4}, {3, 4}},      {{3, 1}, {3, 4}},      {{3, 1}, {1, 4}},    {{2, 3, 4}, {3, 4}},
      {{2, 3, 4}, {2, 1, 4}}, {{2, 1, 4}, {3, 1}}, {{2, 1, 3, 1}, {5, 1, 4}}, {{1, 4}, {4}},
      {{1}, {1, 1}},      {{2, 3, 2, 2}, {3, 1, 2}}, {{0, 3}, {3}},   {{1, 3}, {0, 3}},
      {{2, 0}, {2, 1}},   {{40, 300}, {300}},    {{300, 40}, {300, 1}}, {{3, 2, 1}, {2, 5}}};
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
  for (const auto& shapes : std::vector<std::vector<Shape>>{{{70000}, {70000}},
                                                            {{70000}, {}},
                                                            {{300, 301}, {301}},
                                                            {{300, 301}, {300, 1}},
                                                            {{20, 70, 80}, {20, 1, 80}}}) {
    check_threads(X{}, shapes);
  }
}

}  // namespace

TEST_CASE("broadcast: Add") { check_broadcasts<Add>(); }
TEST_CASE("broadcast: Sub") { check_broadcasts<Sub>(); }
TEST_CASE("broadcast: Mul") { check_broadcasts<Mul>(); }
TEST_CASE("broadcast: Div") { check_broadcasts<Div>(); }

