// What the plain ops must give, as loops in double that nobody tried to make fast.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "qtape/ops/families/reduction.h"
#include "qtape/ops/ops.h"
#include "qtape/tests/support/op_run.h"

namespace qtape::test {

/// Coordinates of the element with number `index`.
inline std::vector<int64_t> unravel(int64_t index, const Shape& shape) {
  std::vector<int64_t> at(static_cast<size_t>(shape.rank()));
  for (int i = shape.rank() - 1; i >= 0; --i) {
    at[static_cast<size_t>(i)] = index % shape[i];
    index /= shape[i];
  }
  return at;
}

/// The number of the element of `shape` that goes with the coordinates `at` of a larger one.
inline size_t broadcast_index(const std::vector<int64_t>& at, const Shape& shape) {
  int64_t index = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const size_t from = at.size() - static_cast<size_t>(shape.rank() - i);
    index = index * shape[i] + (shape[i] == 1 ? 0 : at[from]);
  }
  return static_cast<size_t>(index);
}

template <class X>
Values binary_reference(const X&, const std::vector<Shape>& shapes,
                        const std::vector<Values>& x) {
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

inline Values bias_reference(const AddBias&, const std::vector<Shape>&,
                             const std::vector<Values>& x) {
  Values y = x[0];
  for (size_t i = 0; i < y.size(); ++i) y[i] += x[1][i % x[1].size()];
  return y;
}

template <class X>
Values same(const X&, const std::vector<Shape>&, const std::vector<Values>& x) {
  return x[0];
}

inline Values transpose_reference(const Transpose& op, const std::vector<Shape>& shapes,
                                  const std::vector<Values>& x) {
  const Shape y = op.infer(std::vector<TensorType>{{DType::F64, shapes[0]}}).shape;
  Values result;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const auto at = unravel(i, y);
    std::vector<int64_t> from(at.size());
    for (size_t k = 0; k < at.size(); ++k) {
      const int axis =
          op.permutation.empty() ? y.rank() - 1 - static_cast<int>(k) : op.permutation[k];
      from[static_cast<size_t>(axis < 0 ? axis + y.rank() : axis)] = at[k];
    }
    result.push_back(x[0][broadcast_index(from, shapes[0])]);
  }
  return result;
}

/// Sum, Mean and Max, one element of y at a time.
template <class X>
Values reduce_reference(const X& op, const std::vector<Shape>& shapes,
                        const std::vector<Values>& x) {
  const Shape kept = reduced_shape(shapes[0], op.axes);
  const bool max = std::is_same_v<X, Max>;
  Values y(static_cast<size_t>(kept.elements()),
           max ? -std::numeric_limits<double>::infinity() : 0.0);
  for (int64_t i = 0; i < shapes[0].elements(); ++i) {
    double& to = y[broadcast_index(unravel(i, shapes[0]), kept)];
    const double value = x[0][static_cast<size_t>(i)];
    to = max ? std::max(to, value) : to + value;
  }
  const double n = static_cast<double>(shapes[0].elements()) / static_cast<double>(y.size());
  for (double& value : y) value /= std::is_same_v<X, Mean> ? n : 1.0;
  return y;
}

template <class X>
Values softmax_reference(const X& op, const std::vector<Shape>& shapes,
                         const std::vector<Values>& x) {
  constexpr bool log = std::is_same_v<X, LogSoftmax>;
  const int axis = op.axis < 0 ? op.axis + shapes[0].rank() : op.axis;
  const Shape kept = shapes[0].with(axis, 1);
  Values sums(static_cast<size_t>(kept.elements()));
  for (int64_t i = 0; i < shapes[0].elements(); ++i) {
    sums[broadcast_index(unravel(i, shapes[0]), kept)] +=
        std::exp(x[0][static_cast<size_t>(i)]);
  }
  Values y;
  for (int64_t i = 0; i < shapes[0].elements(); ++i) {
    const double sum = sums[broadcast_index(unravel(i, shapes[0]), kept)];
    const double value = x[0][static_cast<size_t>(i)];
    y.push_back(log ? value - std::log(sum) : std::exp(value) / sum);
  }
  return y;
}

inline Values cross_entropy_reference(const SoftmaxCrossEntropy& op,
                                      const std::vector<Shape>& shapes,
                                      const std::vector<Values>& x) {
  const auto n = static_cast<size_t>(shapes[0][1]);
  const Values log_p = softmax_reference(LogSoftmax{}, shapes, x);
  const double e = op.label_smoothing;
  double loss = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const bool hot = static_cast<double>(i % n) == x[1][i / n];
    loss -= ((hot ? 1 - e : 0.0) + e / static_cast<double>(n)) * log_p[i];
  }
  return {loss / static_cast<double>(shapes[0][0])};
}

inline Values squared_reference(const MeanSquaredError&, const std::vector<Shape>&,
                                const std::vector<Values>& x) {
  double sum = 0;
  for (size_t i = 0; i < x[0].size(); ++i) sum += (x[0][i] - x[1][i]) * (x[0][i] - x[1][i]);
  return {sum / static_cast<double>(x[0].size())};
}

}  // namespace qtape::test
