// Checks of one op at a time: values against a reference, gradients against differences, equal
// bits in place and at any number of threads.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "qtape/ops/softmax_cross_entropy.h"
#include "qtape/tests/support/op_run.h"

namespace qtape::test {

/// One way to use an op. `reference` is what forward must give.
template <class X>
struct Case {
  X op;
  std::vector<Shape> shapes;
  Values (*reference)(const X& op, const std::vector<Shape>& shapes,
                      const std::vector<Values>& x);
  double low = -1;
  double high = 1;
};

inline bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}

inline void check_close(const Values& got, const Values& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    REQUIRE(close(got[i], expected[i], tolerance));
  }
}

inline void check_bits(const Values& got, const Values& expected) {
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

/// sum(dy * y) where operand `i` is moved by h along `direction`.
template <class X>
double loss_along(const X& op, const std::vector<TensorType>& types,
                  std::vector<Values> operands, size_t i, const Values& direction, double h,
                  const Values& dy) {
  for (size_t k = 0; k < direction.size(); ++k) operands[i][k] += h * direction[k];
  const Values y = OpRun<X>(op, types, operands).forward();
  return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
}

/// Compares `gradient` of operand `i` with central differences: along a random direction, and
/// along every element of a small operand.
template <class X>
void check_differences(const X& op, const std::vector<TensorType>& types,
                       const std::vector<Values>& operands, size_t i, const Values& dy,
                       const Values& gradient) {
  constexpr double h = 1e-6;
  std::vector<Values> directions = {random_values(types[i].elements(), 7)};
  for (size_t k = 0; k < gradient.size() && gradient.size() <= 64; ++k) {
    directions.emplace_back(gradient.size())[k] = 1;
  }
  for (const Values& along : directions) {
    const double slope = (loss_along(op, types, operands, i, along, h, dy) -
                          loss_along(op, types, operands, i, along, -h, dy)) /
                         (2 * h);
    const double expected =
        std::inner_product(along.begin(), along.end(), gradient.begin(), 0.0);
    CAPTURE(slope);
    CAPTURE(expected);
    REQUIRE(close(slope, expected, 1e-6));
  }
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
    check_differences(c.op, types, operands, i, dy, plain[i]);
  }
}

template <class X>
void check_case(const Case<X>& c) {
  for (DType dtype : {DType::F64, DType::F32}) {
    const auto [types, operands] = make_operands(c, dtype);
    std::string text;
    for (const TensorType& type : types) text += to_string(type) + " ";
    CAPTURE(text);
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

inline TensorType f32(std::initializer_list<int64_t> extents) {
  return {DType::F32, Shape(extents)};
}
inline TensorType f64(std::initializer_list<int64_t> extents) {
  return {DType::F64, Shape(extents)};
}
inline TensorType s32(std::initializer_list<int64_t> extents) {
  return {DType::S32, Shape(extents)};
}

}  // namespace qtape::test
