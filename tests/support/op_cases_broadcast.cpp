// Cases of ops with two operands: broadcasts, biases and matrix products.
#include <algorithm>
#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

Shape common_shape(const Shape& a, const Shape& b) {
  std::vector<int64_t> extents;
  for (int i = -std::max(a.rank(), b.rank()); i < 0; ++i) {
    const int64_t left = -i <= a.rank() ? a[i] : 1;
    const int64_t right = -i <= b.rank() ? b[i] : 1;
    extents.push_back(left == 1 ? right : left);
  }
  return Shape(extents);
}

ValueOracle broadcast(double (*f)(double, double)) {
  return [f](const OpUse&, Arrays x) {
    Array y{{x[0].type.dtype, common_shape(x[0].type.shape, x[1].type.shape)}, {}};
    for (int64_t i = 0; i < y.type.elements(); ++i) {
      const auto at = unravel(i, y.type.shape);
      y.values.push_back(
          f(x[0].values[ravel(at, x[0].type.shape)], x[1].values[ravel(at, x[1].type.shape)]));
    }
    return y;
  };
}

OpCase broadcast_case(const Op& op, ValueOracle value, Tolerance tolerance) {
  OpCase c{
      .value = std::move(value),
      .bench = {{op, {{{256, 512}, 0.5, 2}, {{256, 512}, 0.5, 2}}}},
      .tolerance = tolerance,
      .refusals = {{op, {f32({8, 4}), f32({3})}, "shapes do not broadcast: [8, 4] and [3]"},
                   {op, {f32({4}), f64({4})}, "dtypes differ: f32 and f64"},
                   {op, {s32({4}), s32({4})}, "expected f32 or f64, got s32"}}};
  using Pair = std::pair<Shape, Shape>;
  const auto add = [&](const Pair& x) {
    c.uses.push_back({op, {{x.first, 0.5, 2}, {x.second, 0.5, 2}}});
  };
  // Extents of 1, missing axes, vector remainders and empty tensors.
  for (const Pair& each : {Pair{{3, 4}, {3, 4}},
                           Pair{{}, {}},
                           Pair{{3, 4}, {}},
                           Pair{{}, {5}},
                           Pair{{3, 4}, {4}},
                           Pair{{4}, {3, 4}},
                           Pair{{3, 1}, {3, 4}},
                           Pair{{3, 1}, {1, 4}},
                           Pair{{1}, {3, 4}},
                           Pair{{2, 3, 4}, {3, 4}},
                           Pair{{2, 3, 4}, {2, 1, 4}},
                           Pair{{2, 1, 4}, {3, 1}},
                           Pair{{2, 1, 3, 1}, {5, 1, 4}},
                           Pair{{1, 4}, {4}},
                           Pair{{1}, {1, 1}},
                           Pair{{2, 3, 2, 2}, {3, 1, 2}},
                           Pair{{0, 3}, {3}},
                           Pair{{1, 3}, {0, 3}},
                           Pair{{2, 0}, {2, 1}},
                           Pair{{40, 300}, {300}},
                           Pair{{300, 40}, {300, 1}},
                           Pair{{3, 2, 1}, {2, 5}}}) {
    add(each);
  }
  for (int64_t n : {1, 3, 17, 1025}) {
    for (const Pair& each : {Pair{{n}, {n}}, Pair{{n}, {1}}, Pair{{2, n}, {n}}}) add(each);
  }
  c.uses.push_back({op, {{{99}, -2, 2, Fill::Special}, {{99}, -2, 2, Fill::Halves}}});
  c.uses.push_back({op, {{{9, 11}, -2, 2, Fill::Halves}, {{11}, -2, 2, Fill::Special}}});
  // Large enough for several threads, with all kinds of broadcasting.
  c.large = {{op, {{{70000}, 0.5, 2}, {{}, 0.5, 2}}},
             {op, {{{300, 301}, 0.5, 2}, {{301}, 0.5, 2}}},
             {op, {{{300, 301}, 0.5, 2}, {{300, 1}, 0.5, 2}}},
             {op, {{{20, 70, 80}, 0.5, 2}, {{20, 1, 80}, 0.5, 2}}}};
  return c;
}

/// An op that takes one of two elements, `f`: its gradient goes there, to a if both are equal.
OpCase choice_case(const Op& op, double (*f)(double, double)) {
  OpCase c = broadcast_case(op, broadcast(f), {.gradient = 16});
  c.gradient = [f](const OpUse&, Arrays x, const Array& dy) {
    std::vector<Values> gradients = {Values(x[0].values.size()), Values(x[1].values.size())};
    for (int64_t i = 0; i < dy.type.elements(); ++i) {
      const auto at = unravel(i, dy.type.shape);
      const size_t a = ravel(at, x[0].type.shape), b = ravel(at, x[1].type.shape);
      const double left = x[0].values[a], right = x[1].values[b];
      const bool takes_a = std::isnan(left) || f(left, right) == left;
      gradients[takes_a ? 0 : 1][takes_a ? a : b] += dy.values[static_cast<size_t>(i)];
    }
    return gradients;
  };
  return c;
}

OpCase add_bias() {
  OpCase c{.value =
               [](const OpUse&, Arrays x) {
                 Array y = x[0];
                 for (size_t i = 0; i < y.values.size(); ++i) {
                   y.values[i] += x[1].values[i % x[1].values.size()];
                 }
                 return y;
               },
           .bench = {{AddBias{}, {{{256, 512}}, {{512}}}}},
           .integer = converts([](Graph& graph) {
             const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
             const NodeId y = linear(graph, x,
                                     {.out = 5,
                                      .weight_quantizer = FakeQuantize{.axis = 0},
                                      .input_quantizer = ema,
                                      .bias_on_grid = false,
                                      .label = "fc"});
             graph.set_outputs({y});
             return y;
           })};
  refuse(c, AddBias{},
         {{{f32({8, 4}), f32({3})}, "b must be [4], the last extent of x, got [3]"},
          {{f32({8, 4}), f32({1, 4})}, "b must be [4], the last extent of x, got [1, 4]"},
          {{f32({}), f32({1})}, "x needs rank >= 1, got a scalar"},
          {{f32({4}), f64({4})}, "dtypes differ: f32 and f64"}});
  for (const Shape& x : std::vector<Shape>{
           {5, 7}, {2, 3, 4}, {6}, {4, 1}, {64, 256}, {3, 1025}, {0, 3}, {3, 0}}) {
    c.uses.push_back({AddBias{}, {{x}, {{x[-1]}}}});
  }
  c.uses.push_back(
      {AddBias{}, {{{9, 11}, -2, 2, Fill::Special}, {{11}, -2, 2, Fill::Special}}});
  c.large = {{AddBias{}, {{{300, 301}}, {{301}}}}};
  return c;
}

/// Multiplies one row of a and one column of b at a time, in index order.
Array product(const OpUse& use, Arrays x) {
  const auto& op = std::get<MatMul>(use.op);
  const Shape& a = x[0].type.shape;
  const Shape& b = x[1].type.shape;
  const int64_t m = op.transpose_a ? a[-1] : a[-2];
  const int64_t k = op.transpose_a ? a[-2] : a[-1];
  const int64_t n = op.transpose_b ? b[-2] : b[-1];
  Array y{{x[0].type.dtype, a.with(a.rank() - 2, m).with(a.rank() - 1, n)}, {}};
  const auto element = [](const Array& from, bool transposed, int64_t batch, int64_t row,
                          int64_t column) {
    const Shape& shape = from.type.shape;
    const auto [i, j] = transposed ? std::pair(column, row) : std::pair(row, column);
    const int64_t matrix = shape.rank() == 2 ? 0 : batch;
    return from.values[static_cast<size_t>((matrix * shape[-2] + i) * shape[-1] + j)];
  };
  for (int64_t i = 0; i < y.type.elements(); ++i) {
    const int64_t batch = i / (m * n);
    double sum = 0;
    for (int64_t t = 0; t < k; ++t) {
      sum += element(x[0], op.transpose_a, batch, i / n % m, t) *
             element(x[1], op.transpose_b, batch, t, i % n);
    }
    y.values.push_back(sum);
  }
  return y;
}

OpCase mat_mul() {
  const MatMul plain;
  const MatMul both{.transpose_a = true, .transpose_b = true};
  OpCase c{
      .value = product,
      .bench = {{MatMul{.transpose_b = true},
                 {{{128, 256}, -3, 4, Fill::Integers}, {{128, 256}, -3, 4, Fill::Integers}}}},
      .tolerance = {.value = 33, .gradient = 33},  // sums of up to this number of terms
      .integer = converts([](Graph& graph) {
        const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
        const NodeId w = graph.add(
            Parameter{.shape = {6, 5}, .initializer = init::KaimingNormal{}}, {}, "w");
        const NodeId y =
            graph.add(MatMul{}, {add_quantizer(graph, x, ema, "x"),
                                 add_quantizer(graph, w, FakeQuantize{.axis = 1}, "w")});
        const NodeId q = add_quantizer(graph, y, ema, "y");
        const NodeId rows = graph.add(Reshape{.shape = {-1, 1, 5}}, {q});
        const NodeId outer = graph.add(MatMul{.transpose_a = true}, {rows, rows});
        graph.set_outputs({y, outer});
        return y;
      }),
      .refusals = {{plain, {f32({2}), f32({2, 3})}, "operands need rank >= 2, got 1 and 2"},
                   {plain, {f32({4, 2}), f32({3, 4})}, "inner extents differ: 2 and 3"},
                   {plain, {f32({4, 2}), f64({2, 4})}, "dtypes differ: f32 and f64"}}};
  using Row = std::pair<MatMul, std::pair<Shape, Shape>>;
  // Integers: sums of products are exact in any order.
  for (const auto& [op, shapes] :
       {Row{plain, {{3, 5}, {5, 4}}}, Row{{.transpose_a = true}, {{5, 3}, {5, 4}}},
        Row{{.transpose_b = true}, {{3, 5}, {4, 5}}}, Row{both, {{5, 3}, {4, 5}}},
        Row{{.transpose_b = true}, {{2, 3, 5}, {4, 5}}}, Row{plain, {{2, 3, 5}, {2, 5, 4}}},
        Row{both, {{2, 5, 3}, {2, 4, 5}}}, Row{plain, {{1, 1}, {1, 1}}},
        Row{plain, {{0, 3}, {3, 4}}}, Row{plain, {{3, 0}, {0, 4}}},
        Row{plain, {{3, 4}, {4, 0}}}, Row{{.transpose_b = true}, {{17, 33}, {31, 33}}}}) {
    const auto& [a, b] = shapes;
    c.uses.push_back({op, {{a}, {b}}});
    c.exact.push_back({op, {{a, -9, 9, Fill::Integers}, {b, -9, 9, Fill::Integers}}});
  }
  return c;
}

/// One slope for each channel, single slopes and negative ones, between quantizers of 8 and of
/// 16 bits, and after another function.
NodeId prelu_net(Graph& graph) {
  const FakeQuantize wide = ema.with(&FakeQuantize::bits, 16);
  const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
  // `settle` draws what is called a bias.
  const auto slope = [&](const char* label, int64_t n) {
    return graph.add(Parameter{.shape = {n}}, {}, label);
  };
  const NodeId each = slope("each.bias", 6), one = slope("one.bias", 1);
  const NodeId narrow = add_quantizer(graph, x, ema, "x8");
  const NodeId y = graph.add(PRelu{}, {narrow, each}, "y");
  const NodeId chained = graph.add(PRelu{}, {graph.add(Tanh{}, {narrow}), each});
  const NodeId twice = graph.add(Relu6{}, {graph.add(PRelu{}, {chained, one})});
  std::vector<NodeId> results;
  for (const NodeId id : {y, twice, graph.add(PRelu{}, {narrow, one}),
                          graph.add(PRelu{}, {add_quantizer(graph, x, wide, "x16"), each})}) {
    results.push_back(add_quantizer(graph, id, results.empty() ? ema : wide,
                                    "q" + std::to_string(results.size())));
  }
  graph.set_outputs(results);
  return y;
}

OpCase prelu() {
  const auto value = [](const OpUse&, Arrays x) {
    Array y = x[0];
    for (size_t i = 0; i < y.values.size(); ++i) {
      const double slope = x[1].values[i % x[1].values.size()];
      y.values[i] = y.values[i] < 0 ? y.values[i] * slope : y.values[i];
    }
    return y;
  };
  OpCase c{.value = value,
           .bench = {{PRelu{}, {{{256, 512}}, {{512}}}}},
           .tolerance = {.gradient = 4},
           .integer = converts(prelu_net)};
  for (const Shape& x : std::vector<Shape>{
           {5, 7}, {2, 3, 4}, {6}, {4, 1}, {64, 256}, {3, 1025}, {0, 3}, {3, 0}}) {
    for (const int64_t n : {x[-1], int64_t{1}}) {
      c.uses.push_back({PRelu{}, {{x, -2, -0.1}, {{n}, -1, 1}}});
      c.uses.push_back({PRelu{}, {{x, 0.1, 2}, {{n}, -1, 1}}});
    }
  }
  c.uses.push_back({PRelu{}, {{{9, 11}, -2, 2, Fill::Special}, {{11}, -2, 2, Fill::Special}}});
  c.uses.push_back({PRelu{}, {{{9, 11}, -2, 2, Fill::Halves}, {{1}, -2, 2}}});
  c.large = {{PRelu{}, {{{300, 301}, -2, -0.1}, {{301}}}},
             {PRelu{}, {{{300, 301}, -2, -0.1}, {{1}}}}};
  refuse(c, PRelu{},
         {{{f32({8, 4}), f32({3})},
           "slope must be [1], or [n] for the last extent n of [8, 4], got [3]"},
          {{f32({8, 4}), f32({1, 4})},
           "slope must be [1], or [n] for the last extent n of [8, 4], got [1, 4]"},
          {{f32({}), f32({1})}, "x needs rank >= 1, got a scalar"},
          {{f32({4}), f64({4})}, "dtypes differ: f32 and f64"}});
  return c;
}

}  // namespace

std::vector<OpCase> broadcast_cases() {
  OpCase add = broadcast_case(Add{}, broadcast([](double a, double b) { return a + b; }), {});
  OpCase sub = broadcast_case(Sub{}, broadcast([](double a, double b) { return a - b; }), {});
  OpCase mul = broadcast_case(Mul{}, broadcast([](double a, double b) { return a * b; }), {});
  OpCase div = broadcast_case(Div{}, broadcast([](double a, double b) { return a / b; }),
                              {.gradient = 4});
  const auto larger = [](double a, double b) { return a >= b || std::isnan(a) ? a : b; };
  const auto smaller = [](double a, double b) { return a <= b || std::isnan(a) ? a : b; };
  OpCase maximum = choice_case(Maximum{}, larger);
  OpCase minimum = choice_case(Minimum{}, smaller);
  for (OpCase* each : {&add, &sub, &mul}) {
    each->integer = converts({each->uses[0].op, {{{4, 6}}, {{4, 6}}}});
  }
  maximum.integer = converts({Maximum{}, {{{4, 6}}, {{4, 1}}}});
  minimum.integer = converts({Minimum{}, {{{4, 1}}, {{4, 6}}}});
  div.integer = refused(
      "has integers only if both operands are functions of the same codes: replace it with an op that has an integer form, or end the model before it",
      {Div{}, {{{4, 6}}, {{4, 6}}}});
  return {mat_mul(), add_bias(), add, sub, mul, div, prelu(), maximum, minimum};
}

}  // namespace qtape::test
