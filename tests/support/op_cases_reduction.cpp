// Cases of ops that reduce axes: sums, maxima, softmax and losses.
#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
/// Returns x with extent 1 along `axes`, or along all axes if empty.
Shape kept_shape(const Shape& x, const std::vector<int>& axes) {
  Shape kept = x;
  for (int i = 0; i < x.rank() && axes.empty(); ++i) kept = kept.with(i, 1);
  for (int axis : axes) kept = kept.with(axis < 0 ? axis + x.rank() : axis, 1);
  return kept;
}

/// Returns for each element of y the elements of x that it reduces, in index order.
std::vector<std::vector<size_t>> groups(const Shape& x, const Shape& kept) {
  std::vector<std::vector<size_t>> result(static_cast<size_t>(kept.elements()));
  for (int64_t i = 0; i < x.elements(); ++i) {
    result[ravel(unravel(i, x), kept)].push_back(static_cast<size_t>(i));
  }
  return result;
}

/// Applies `f` to the elements that each element of y reduces.
template <class X>
ValueOracle reduction(double (*f)(const Values& terms)) {
  return [f](const OpUse& use, Arrays x) {
    const X& op = std::get<X>(use.op);
    const Shape& shape = x[0].type.shape;
    const Shape kept = kept_shape(shape, op.axes);
    std::vector<int64_t> extents;
    for (int i = 0; i < shape.rank(); ++i) {
      const bool reduced = op.axes.empty() || std::ranges::count(op.axes, i) > 0 ||
                           std::ranges::count(op.axes, i - shape.rank()) > 0;
      if (!reduced || op.keep_dims) extents.push_back(kept[i]);
    }
    Array y{{x[0].type.dtype, Shape(extents)}, {}};
    for (const auto& group : groups(shape, kept)) {
      Values terms;
      for (size_t i : group) terms.push_back(x[0].values[i]);
      y.values.push_back(f(terms));
    }
    return y;
  };
}

double sum(const Values& terms) {
  long double total = 0;
  for (double each : terms) total += each;
  return static_cast<double>(total);
}

/// Returns the index of the first largest element; NaN is above everything.
size_t peak(const Values& terms) {
  for (size_t i = 0; i < terms.size(); ++i) {
    if (std::isnan(terms[i])) return i;
  }
  return static_cast<size_t>(std::ranges::max_element(terms) - terms.begin());
}

template <class X>
OpCase reduction_case(double (*f)(const Values& terms), Tolerance tolerance) {
  OpCase c{.value = reduction<X>(f),
           .bench = {{X{.axes = {1}}, {{{256, 512}}}}},
           .tolerance = tolerance,
           .integer = converts({X{.axes = {1}}, {{{4, 6}}}}),
           .refusals = {{X{.axes = {3}}, {f32({2, 3, 4})}, "axis 3 is out of range for rank 3"},
                        {X{.axes = {1, -2}}, {f32({2, 3, 4})}, "axis -2 is given twice"},
                        {X{}, {s32({2})}, "expected f32 or f64, got s32"}}};
  using Row = std::pair<Shape, std::vector<int>>;
  for (const auto& [shape, axes] :
       {Row{{3, 4}, {}}, Row{{}, {}}, Row{{3, 4}, {0}}, Row{{3, 4}, {1}}, Row{{2, 3, 4}, {1}},
        Row{{2, 3, 4}, {-1}}, Row{{2, 3, 4}, {0, 2}}, Row{{2, 3, 4}, {0, -1}},
        Row{{2, 3, 4}, {-3, 1}}, Row{{2, 3, 2, 3}, {0, 2}}, Row{{2, 3, 2, 3}, {1, 3}},
        Row{{5, 1, 3}, {1}}, Row{{3, 130}, {1}}, Row{{3, 2, 70}, {0, 2}}, Row{{70, 3}, {0}},
        Row{{2, 300}, {0}}, Row{{0, 3}, {1}}}) {
    c.uses.push_back({X{.axes = axes}, {{shape}}});
    c.uses.push_back({X{.axes = axes, .keep_dims = true}, {{shape}}});
    c.exact.push_back({X{.axes = axes}, {{shape, -2, 2, Fill::Halves}}});
  }
  for (int64_t n : {1, 3, 17, 1025}) c.uses.push_back({X{}, {{{n}}}});
  for (const auto& axes : std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {0, 2}}) {
    c.large.push_back({X{.axes = axes}, {{{20, 70, 80}}}});
  }
  return c;
}

OpCase max() {
  OpCase c = reduction_case<Max>([](const Values& terms) { return terms[peak(terms)]; }, {});
  c.gradient = [](const OpUse& use, Arrays x, const Array& dy) -> std::vector<Values> {
    const Shape& shape = x[0].type.shape;
    const auto parts = groups(shape, kept_shape(shape, std::get<Max>(use.op).axes));
    Values dx(x[0].values.size());
    for (size_t o = 0; o < parts.size(); ++o) {
      Values terms;
      for (size_t i : parts[o]) terms.push_back(x[0].values[i]);
      dx[parts[o][peak(terms)]] = dy.values[o];
    }
    return {dx};
  };
  for (const auto& axes : std::vector<std::vector<int>>{{}, {0}, {1}}) {
    c.uses.push_back({Max{.axes = axes}, {{{9, 20}, -1, 1, Fill::Special}}});
    c.uses.push_back({Max{.axes = axes}, {{{9, 200}, -1, 1, Fill::Halves}}});
  }
  // The maximum at every boundary of lanes and blocks.
  for (size_t place : {0u, 63u, 64u, 191u, 192u, 199u}) {
    Values alone(200, 1.0);
    alone[place] = 2;
    c.uses.push_back({Max{}, {{.shape = {200}, .values = alone}}});
  }
  const double inf = std::numeric_limits<double>::infinity();
  c.uses.push_back(
      {Max{.axes = {1}},
       {{.shape = {4, 3}, .values = {1, 2, 2, nan, 9, nan, -inf, -inf, -inf, 0, -0.0, 0}}}});
  c.refusals.push_back(
      {Max{}, {f32({0, 3})}, "the maximum of no elements is undefined, x is [0, 3]"});
  return c;
}

OpCase arg_max() {
  const auto value = [](const OpUse& use, Arrays x) {
    const auto& op = std::get<ArgMax>(use.op);
    const Shape& shape = x[0].type.shape;
    const Shape kept = kept_shape(shape, {op.axis});
    Array y{{DType::S32, kept}, {}};
    for (const auto& part : groups(shape, kept)) {
      Values terms;
      for (size_t i : part) terms.push_back(x[0].values[i]);
      y.values.push_back(static_cast<double>(peak(terms)));
    }
    if (op.keep_dims) return y;
    std::vector<int64_t> extents;
    const int at = op.axis < 0 ? op.axis + shape.rank() : op.axis;
    for (int k = 0; k < shape.rank(); ++k) {
      if (k != at) extents.push_back(shape[k]);
    }
    y.type.shape = Shape(extents);
    return y;
  };
  OpCase c{
      .value = value,
      .bench = {{ArgMax{}, {{{256, 512}}}}},
      .integer = converts([](Graph& graph) {
        const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
        const NodeId y = graph.add(ArgMax{}, {add_quantizer(graph, x, ema, "q")});
        graph.set_outputs({y});
        return y;
      }),
      .refusals = {{ArgMax{}, {s32({4})}, "expected f32 or f64, got s32"},
                   {ArgMax{.axis = 1},
                    {f32({4, 0})},
                    "axis 1 must have 1 to 2^31 - 1 elements, x is [4, 0]"},
                   {ArgMax{.axis = 2}, {f32({4, 3})}, "axis 2 is out of range for rank 2"}},
      .conformance = {{ArgMax{}, {{{3, 7}}}},
                      {ArgMax{.axis = 1, .keep_dims = true}, {{{2, 5, 3}}}},
                      {ArgMax{.axis = 0}, {{{4, 2, 2}}}}}};
  for (const Shape& x : std::vector<Shape>{{5, 7}, {3, 4, 5}, {2, 1, 3}, {0, 3}, {6, 1025}}) {
    for (int axis = -1; axis < x.rank(); ++axis) {
      if (x[axis < 0 ? x.rank() - 1 : axis] == 0) continue;
      for (const bool keep : {false, true}) {
        const ArgMax op{.axis = axis, .keep_dims = keep};
        c.uses.push_back({op, {{x}}});
        c.uses.push_back({op, {{x, -2, 2, Fill::Halves}}});
        c.uses.push_back({op, {{x, -2, 2, Fill::Special}}});
      }
    }
  }
  c.uses.push_back({ArgMax{}, {{{9}, -2, 2, Fill::Integers}}});
  c.large = {{ArgMax{}, {{{700, 301}}}}};
  return c;
}

template <class X>
OpCase softmax_case() {
  OpCase c{.value =
               [](const OpUse& use, Arrays x) {
                 const Shape& shape = x[0].type.shape;
                 const auto lines =
                     groups(shape, kept_shape(shape, {std::get<X>(use.op).axis}));
                 Array y = x[0];
                 for (const auto& line : lines) {
                   double most = -std::numeric_limits<double>::infinity();
                   for (size_t i : line) most = std::max(most, x[0].values[i]);
                   double total = 0;
                   for (size_t i : line) total += std::exp(x[0].values[i] - most);
                   for (size_t i : line) {
                     const double v = x[0].values[i] - most;
                     y.values[i] = std::is_same_v<X, LogSoftmax> ? v - std::log(total)
                                                                 : std::exp(v) / total;
                   }
                 }
                 return y;
               },
           .bench = {{X{}, {{{256, 512}, -3, 3}}}},
           .tolerance = {.value = 4, .gradient = 8},
           .integer = refused(no_integers, {X{}, {{{4, 6}}}}),
           .refusals = {{X{.axis = 2}, {f32({2, 3})}, "axis 2 is out of range for rank 2"},
                        {X{}, {f32({})}, "axis -1 is out of range for rank 0"},
                        {X{}, {s32({2})}, "expected f32 or f64, got s32"}}};
  for (int64_t n : {1, 3, 17, 1025}) c.uses.push_back({X{}, {{{3, n}, -3, 3}}});
  for (const Shape& shape :
       std::vector<Shape>{{4}, {3, 5}, {2, 3, 4}, {3, 70}, {2, 5, 3, 2}, {0, 3}, {3, 0}}) {
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis) {
      c.uses.push_back({X{.axis = axis}, {{shape, -3, 3}}});
    }
  }
  // Large operands must not overflow, and NaN must stay in its line.
  c.exact = {{X{}, {{.shape = {3, 2}, .values = {1000, 0, -1000, -1000, nan, 1}}}}};
  c.large = {{X{}, {{{300, 301}, -3, 3}}}, {X{.axis = 1}, {{{20, 70, 80}, -3, 3}}}};
  return c;
}

OpCase cross_entropy() {
  using X = SoftmaxCrossEntropy;
  OpCase c{.value =
               [](const OpUse& use, Arrays x) {
                 const double e = std::get<X>(use.op).label_smoothing;
                 const auto n = static_cast<size_t>(x[0].type.shape[1]);
                 double loss = 0;
                 for (size_t row = 0; row < x[1].values.size(); ++row) {
                   const double* logits = x[0].values.data() + row * n;
                   double total = 0;
                   for (size_t j = 0; j < n; ++j) total += std::exp(logits[j]);
                   for (size_t j = 0; j < n; ++j) {
                     const bool hot = static_cast<double>(j) == x[1].values[row];
                     const double target = (hot ? 1 - e : 0.0) + e / static_cast<double>(n);
                     loss -= target * (logits[j] - std::log(total));
                   }
                 }
                 const auto rows = static_cast<double>(x[1].values.size());
                 return Array{{x[0].type.dtype, {}}, {loss / rows}};
               },
           .bench = {{X{}, {{{256, 512}, -3, 3}, integers(DType::S32, {256}, 0, 512)}}},
           .tolerance = {.value = 8, .gradient = 8},
           .integer = refused(no_integers, {X{}, {{{4, 5}}, integers(DType::S32, {4}, 0, 5)}})};
  refuse(c, {f32({4, 10}), s32({4})},
         {{X{.label_smoothing = 1}, "label_smoothing must be in [0, 1), got 1"},
          {X{.label_smoothing = nan}, "label_smoothing must be in [0, 1), got nan"}});
  refuse(c, X{},
         {{{f32({4, 10}), f32({4})}, "labels must be s32, got f32"},
          {{f32({4}), s32({4})}, "logits must be [n, classes], got [4]"},
          {{f32({4, 10}), s32({3})}, "labels must be [4], one per row, got [3]"},
          {{f32({4, 0}), s32({4})}, "n and classes must be at least 1, got logits [4, 0]"}});
  for (double e : {0.0, 0.1}) {
    const auto use = [&](int64_t rows, int64_t classes) {
      const auto most = static_cast<double>(classes);
      return OpUse{X{.label_smoothing = e},
                   {{{rows, classes}, -3, 3}, integers(DType::S32, {rows}, 0, most)}};
    };
    for (int64_t n : {1, 3, 17, 1025}) {
      c.uses.push_back(use(3, n));
      c.uses.push_back(use(n, 4));
    }
    c.uses.push_back(use(4, 5));
    c.large.push_back(use(300, 301));
  }
  return c;
}

OpCase squared_error() {
  using X = MeanSquaredError;
  OpCase c{.value =
               [](const OpUse&, Arrays x) {
                 Values squares;
                 for (size_t i = 0; i < x[0].values.size(); ++i) {
                   const double distance = x[0].values[i] - x[1].values[i];
                   squares.push_back(distance * distance);
                 }
                 return Array{{x[0].type.dtype, {}},
                              {sum(squares) / static_cast<double>(squares.size())}};
               },
           .bench = {{X{}, {{{256, 512}}, {{256, 512}}}}},
           .tolerance = {.value = 4, .gradient = 4},
           .integer = refused(no_integers, {X{}, {{{4, 6}}, {{4, 6}}}}),
           .refusals = {{X{}, {f32({3}), f32({1, 3})}, "shapes differ: [3] and [1, 3]"},
                        {X{},
                         {f32({0}), f32({0})},
                         "the mean of no elements is undefined, prediction is [0]"},
                        {X{}, {f32({3}), f64({3})}, "dtypes differ: f32 and f64"}}};
  for (int64_t n : {1, 3, 17, 1025}) c.uses.push_back({X{}, {{{n}}, {{n}}}});
  c.uses.push_back({X{}, {{{5, 3}}, {{5, 3}}}});
  c.large = {{X{}, {{{300, 301}}, {{300, 301}}}}};
  return c;
}

}  // namespace

std::vector<OpCase> reduction_cases() {
  OpCase sums = reduction_case<Sum>(sum, {.value = 4});
  sums.uses.push_back({Sum{.axes = {0}}, {{{0, 3}}}});
  OpCase means = reduction_case<Mean>(
      [](const Values& terms) { return sum(terms) / static_cast<double>(terms.size()); },
      {.value = 4});
  means.refusals.push_back(
      {Mean{}, {f32({0, 3})}, "the mean of no elements is undefined, x is [0, 3]"});
  return {sums,
          means,
          max(),
          arg_max(),
          softmax_case<Softmax>(),
          softmax_case<LogSoftmax>(),
          cross_entropy(),
          squared_error()};
}

}  // namespace qtape::test
