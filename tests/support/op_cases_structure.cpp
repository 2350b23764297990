// Cases of leaves and views, and of ops with rows or weights of elements.
#include <cmath>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

OpCase reshape() {
  OpCase c{.gradient = passes, .dtypes = all_dtypes};
  c.value = [](const OpUse& use, Arrays x) {
    std::vector<int64_t> extents = std::get<Reshape>(use.op).shape;
    int64_t known = 1;
    for (int64_t each : extents) known *= each < 0 ? 1 : each;
    for (int64_t& each : extents) each = each < 0 ? x[0].type.elements() / known : each;
    return Array{{x[0].type.dtype, Shape(extents)}, x[0].values};
  };
  for (int64_t n : {1, 3, 17, 1025}) c.uses.push_back({Reshape{.shape = {1, -1}}, {{{n}}}});
  c.uses.push_back({Reshape{.shape = {2, -1}}, {{{4, 3}}}});
  c.uses.push_back({Reshape{.shape = {4, -1}}, {{{2, 6}, -1, 1, Fill::Halves}}});
  c.uses.push_back({Reshape{}, {{{1, 1}}}});
  c.uses.push_back({Reshape{.shape = {0, 5}}, {{{0}}}});
  c.bench = {{Reshape{.shape = {512, 256}}, {{{256, 512}}}}};
  c.integer = converts({Reshape{.shape = {-1, 3, 2}}, {{{4, 6}}}});
  refuse(c, {f32({2, 3})},
         {{Reshape{.shape = {4, -1}}, "cannot reshape [2, 3] to [4, -1]"},
          {Reshape{.shape = {7}}, "cannot reshape [2, 3] to [7]"}});
  refuse(c, {f32({2})},
         {{Reshape{.shape = {-1, -1}}, "at most one extent may be -1, got [-1, -1]"},
          {Reshape{.shape = {-2}}, "extent -2 of shape [-2] is negative"}});
  refuse(c, Reshape{.shape = {0, -1}}, {{{f32({0})}, "cannot reshape [0] to [0, -1]"}});
  return c;
}

OpCase flatten() {
  OpCase c{.gradient = passes, .dtypes = all_dtypes};
  c.value = [](const OpUse& use, Arrays x) {
    const Shape& shape = x[0].type.shape;
    const int axis = std::get<Flatten>(use.op).start_axis;
    const int start = axis < 0 ? axis + shape.rank() : axis;
    std::vector<int64_t> extents;
    int64_t joined = 1;
    for (int i = 0; i < shape.rank(); ++i) {
      if (i < start) extents.push_back(shape[i]);
      if (i >= start) joined *= shape[i];
    }
    extents.push_back(joined);
    return Array{{x[0].type.dtype, Shape(extents)}, x[0].values};
  };
  c.uses = {{Flatten{}, {{{2, 3, 2}}}},
            {Flatten{}, {{{2, 3, 4}}}},
            {Flatten{.start_axis = 0}, {{{}}}},
            {Flatten{.start_axis = -2}, {{{2, 3, 4}}}},
            {Flatten{.start_axis = 1}, {{{5}}}}};
  c.bench = {{Flatten{}, {{{256, 16, 32}}}}};
  c.integer = converts({Flatten{}, {{{4, 3, 2}}}});
  refuse(c, Flatten{.start_axis = 3},
         {{{f32({2, 3})}, "start_axis 3 is out of range for rank 2"}});
  return c;
}

OpCase stop_gradient() {
  return {.value = [](const OpUse&, Arrays x) { return x[0]; },
          .uses = {{StopGradient{}, {{{2, 3}}}}, {StopGradient{}, {{{0}}}}},
          .bench = {{StopGradient{}, {{{256, 512}}}}},
          .dtypes = all_dtypes,
          .integer = converts({StopGradient{}, {{{4, 6}}}})};
}

/// An element of x in a sum, and its weight.
using Term = std::pair<size_t, double>;

/// The weight of index `index` of x at the position of index i of y.
double hat(const Interpolate& op, size_t axis, int64_t in, int64_t i, int64_t index) {
  const auto parts = static_cast<double>(op.divisor[axis]);
  const double at = static_cast<double>(i * op.step[axis] + op.offset[axis]) / parts;
  const double inside = std::min(std::max(at, 0.0), static_cast<double>(in - 1));
  return std::max(0.0, 1 - std::fabs(inside - static_cast<double>(index)));
}

/// The indices of x along an axis that are in each index of y, with their weights.
std::vector<std::vector<Term>> terms_along(const Interpolate& op, int axis, int64_t in,
                                           int64_t out) {
  std::vector<std::vector<Term>> all(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    for (int64_t k = 0; k < in; ++k) {
      const double weight = hat(op, static_cast<size_t>(axis) - 1, in, i, k);
      if (weight > 1e-9) all[static_cast<size_t>(i)].emplace_back(k, weight);
    }
  }
  return all;
}

/// The terms of each element of y.
std::vector<std::vector<Term>> terms_of(const Interpolate& op, const Shape& x, const Shape& y) {
  std::vector<std::vector<std::vector<Term>>> along;
  for (int axis = 1; axis < x.rank() - 1; ++axis) {
    along.push_back(terms_along(op, axis, x[axis], y[axis]));
  }
  std::vector<std::vector<Term>> all;
  for (int64_t k = 0; k < y.elements(); ++k) {
    auto at = unravel(k, y);
    int64_t terms = 1;
    for (size_t a = 0; a < along.size(); ++a) {
      terms *= std::ssize(along[a][static_cast<size_t>(at[a + 1])]);
    }
    const auto to = at;
    all.emplace_back();
    for (int64_t m = 0; m < terms; ++m) {
      double weight = 1;
      int64_t rest = m;
      for (size_t a = 0; a < along.size(); ++a) {
        const std::vector<Term>& one = along[a][static_cast<size_t>(to[a + 1])];
        const auto& [from, factor] = one[static_cast<size_t>(rest % std::ssize(one))];
        rest /= std::ssize(one);
        at[a + 1] = static_cast<int64_t>(from);
        weight *= factor;
      }
      all.back().emplace_back(exact_index(at, x), weight);
    }
  }
  return all;
}

Shape resized(const Interpolate& op, Shape x) {
  for (size_t k = 0; k < op.extents.size(); ++k) {
    x = x.with(static_cast<int>(k) + 1, op.extents[k]);
  }
  return x;
}

OpCase interpolate() {
  OpCase c;
  c.value = [](const OpUse& use, Arrays x) {
    const auto& op = std::get<Interpolate>(use.op);
    Array y{{x[0].type.dtype, resized(op, x[0].type.shape)}, {}};
    for (const auto& terms : terms_of(op, x[0].type.shape, y.type.shape)) {
      double sum = 0;
      for (const auto& [from, weight] : terms) sum += weight * x[0].values[from];
      y.values.push_back(sum);
    }
    return y;
  };
  c.gradient = [](const OpUse& use, Arrays x, const Array& dy) -> std::vector<Values> {
    Values dx(x[0].values.size());
    const auto all = terms_of(std::get<Interpolate>(use.op), x[0].type.shape, dy.type.shape);
    for (size_t i = 0; i < all.size(); ++i) {
      for (const auto& [from, weight] : all[i]) dx[from] += weight * dy.values[i];
    }
    return {dx};
  };
  c.tolerance = {.value = 4, .gradient = 8};
  const Interpolate twice{
      .extents = {6, 8}, .step = {2, 2}, .offset = {-1, -1}, .divisor = {4, 4}};
  const Interpolate uneven{
      .extents = {5, 3}, .step = {3, 4}, .offset = {-1, 1}, .divisor = {5, 3}};
  const Interpolate corners{.extents = {7}, .step = {3}, .offset = {0}, .divisor = {6}};
  const Interpolate still{.extents = {2}, .step = {0}, .offset = {3}, .divisor = {2}};
  using Row = std::pair<Interpolate, Shape>;
  add_shapes<Interpolate>(
      c,
      {Row{twice, {2, 3, 4, 3}}, Row{uneven, {1, 3, 4, 2}}, Row{uneven, {2, 1, 1, 131}},
       Row{corners, {2, 4, 3}}, Row{still, {1, 4, 2}}, Row{corners, {0, 4, 3}},
       Row{corners, {2, 4, 0}}},
      -1, 1);
  c.large = {{twice, {{{500, 3, 4, 9}}}}, {corners, {{{3000, 4, 5}}}}};
  c.bench = {
      {Interpolate{.extents = {32, 32}, .step = {2, 2}, .offset = {-1, -1}, .divisor = {4, 4}},
       {{{16, 16, 16, 32}}}}};
  c.integer = converts_on_grids({4, 3, 4, 2}, {twice, uneven});
  refuse(
      c, {f32({1, 3, 4, 2})},
      {{Interpolate{}, "extents must have 2 numbers, one for each spatial axis, got 0"},
       {Interpolate{.extents = {3, 0}}, "extents must be in 1..2147483647 along axis 2, got 0"},
       {Interpolate{.extents = {3, 3}, .step = {1, -1}},
        "step must be in 0..2147483647 along axis 2, got -1"},
       {Interpolate{.extents = {3, 3}, .step = {1, 1}, .offset = {-2147483648, 0}},
        "offset must be in -2147483647..2147483647 along axis 1, got -2147483648"},
       {Interpolate{.extents = {3, 3}, .step = {1, 1}, .offset = {0, 0}, .divisor = {0, 1}},
        "divisor must be in 1..2147483647 along axis 1, got 0"}});
  refuse(c, twice,
         {{{f32({2, 3})}, "x must be [n, h, w, c] or [n, l, c], got [2, 3]"},
          {{f32({1, 0, 3, 2})}, "x [1, 0, 3, 2] has no elements along axis 1"},
          {{s32({1, 3, 4, 2})}, "expected f32 or f64, got s32"}});
  c.conformance = {{twice, {{{1, 3, 4, 2}}}},
                   {uneven, {{{2, 2, 3, 1}}}},
                   {corners, {{{2, 4, 2}}}},
                   {still, {{{1, 4, 2}}}}};
  return c;
}

OpCase embedding() {
  OpCase c{
      .value =
          [](const OpUse&, Arrays x) {
            const int64_t width = x[0].type.shape[1];
            const auto& of = x[1].type.shape.extents();
            std::vector<int64_t> extents(of.begin(), of.end());
            extents.push_back(width);
            Array y{{x[0].type.dtype, Shape(extents)}, {}};
            for (double index : x[1].values) {
              for (int64_t j = 0; j < width; ++j) {
                y.values.push_back(
                    x[0].values[static_cast<size_t>(static_cast<int64_t>(index) * width + j)]);
              }
            }
            return y;
          },
      .gradient = [](const OpUse&, Arrays x, const Array& dy) -> std::vector<Values> {
        const auto width = static_cast<size_t>(x[0].type.shape[1]);
        Values table(x[0].values.size());
        for (size_t i = 0; i < x[1].values.size(); ++i) {
          const size_t row = static_cast<size_t>(x[1].values[i]) * width;
          for (size_t j = 0; j < width; ++j) table[row + j] += dy.values[i * width + j];
        }
        return {table, {}};
      }};
  const auto use = [](int64_t rows, int64_t width, const Shape& indices) {
    return OpUse{
        Embedding{},
        {{{rows, width}}, integers(DType::S32, indices, 0, static_cast<double>(rows))}};
  };
  c.uses = {
      use(5, 3, {7}),  use(1, 4, {3}), use(6, 1, {2, 3}), use(4, 131, {2, 2, 3}),
      use(3, 2, {}),   use(3, 2, {0}), use(3, 2, {2, 0}), use(17, 3, {2, 1, 2, 1, 2, 1, 2}),
      use(2, 3, {300})};
  c.large = {use(1000, 64, {3000}), use(7, 9, {30, 1000})};
  c.bench = {use(10000, 64, {64, 32})};
  c.integer = converts([](Graph& graph) {
    const NodeId table = graph.add(
        Parameter{.shape = {6, 3}, .initializer = init::KaimingNormal{}}, {}, "table");
    const NodeId x = graph.add(Input{.dtype = DType::S32, .shape = {1, 4}}, {}, "x");
    const NodeId y =
        graph.add(Embedding{}, {add_quantizer(graph, table, ema, "table"), x}, "y");
    graph.set_outputs({y});
    return y;
  });
  refuse(c, Embedding{},
         {{{f32({4}), s32({2})}, "table must be [vocabulary, width], both at least 1, got [4]"},
          {{f32({0, 3}), s32({2})},
           "table must be [vocabulary, width], both at least 1, got [0, 3]"},
          {{f32({3, 0}), s32({2})},
           "table must be [vocabulary, width], both at least 1, got [3, 0]"},
          {{f32({4, 3}), f32({2})}, "indices must be s32, got f32"},
          {{f32({4, 3}), s32({1, 1, 1, 1, 1, 1, 1, 1})},
           "indices may have at most 7 axes, got [1, 1, 1, 1, 1, 1, 1, 1]"},
          {{f32({1, int64_t{1} << 30}), s32({int64_t{1} << 20})},
           "shape [1048576, 1073741824] has more than 2^48 elements"},
          {{s32({4, 3}), s32({2})}, "expected f32 or f64, got s32"}});
  return c;
}

/// Returns a leaf in which each element is `value`.
Array filled_with(const TensorType& type, double value) {
  return {type, Values(static_cast<size_t>(type.elements()), value)};
}

Tensor counted(const Shape& shape) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(static_cast<float>(i) - 7);
  return Tensor::of<float>(shape, values);
}

/// x times the weights in `leaf`, of shape [6, 5].
IntegerVerdict converts_as_weight(const Op& leaf) {
  return converts([leaf](Graph& graph) {
    const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
    const NodeId w = graph.add(leaf, {}, "w");
    graph.set_outputs({graph.add(MatMul{}, {add_quantizer(graph, x, ema, "x"),
                                            add_quantizer(graph, w, FakeQuantize{}, "w")})});
    return w;
  });
}

}  // namespace

std::vector<OpCase> structure_cases() {
  return {reshape(), flatten(), interpolate(), embedding(), stop_gradient()};
}

// The contents of an Input are x[0], written by the driver.
std::vector<OpCase> leaf_cases() {
  const double inf = std::numeric_limits<double>::infinity();
  return {
      {.value = [](const OpUse&, Arrays x) { return x[0]; },
       .uses = {{Input{.dtype = DType::F64, .shape = {3, 4}}},
                {Input{.shape = {67}, .batch = false}},
                {Input{.dtype = DType::F16, .shape = {5}}},
                {Input{.dtype = DType::S32, .shape = {5}}}},
       .gradient = passes,
       .integer = converts([](Graph& graph) {
         const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
         graph.set_outputs({add_quantizer(graph, x, ema, "x")});
         return x;
       }),
       .refusals = {{Input{.shape = {}}, {}, "a batched input needs rank >= 1, got a scalar"}}},
      {.value =
           [](const OpUse& use, Arrays) {
             const auto& op = std::get<Parameter>(use.op);
             const auto* fill = std::get_if<init::Fill>(&op.initializer);
             return filled_with({op.dtype, op.shape}, fill == nullptr ? 0 : fill->value);
           },
       .uses = {{Parameter{.dtype = DType::F64, .shape = {3}}},
                {Parameter{.shape = {2, 35}, .initializer = init::Fill{.value = 1.5}}}},
       .gradient = passes,
       .integer =
           converts_as_weight(Parameter{.shape = {6, 5}, .initializer = init::KaimingNormal{}}),
       .refusals = {{Parameter{.dtype = DType::S32}, {}, "expected f32 or f64, got s32"}}},
      {.value =
           [](const OpUse& use, Arrays) {
             const auto& op = std::get<State>(use.op);
             return filled_with({op.dtype, op.shape}, op.value);
           },
       .uses = {{State{.dtype = DType::F64, .shape = {3}, .value = 0.1}},
                {State{.shape = {2, 35}}}},
       .integer = converts_as_weight(State{.shape = {6, 5}, .value = 0.3}),
       .refusals = {{State{.dtype = DType::S32}, {}, "expected f32 or f64, got s32"},
                    {State{.value = inf}, {}, "value must be a finite f32, got inf"}}},
      {.value =
           [](const OpUse& use, Arrays) {
             const Tensor& tensor = std::get<Constant>(use.op).value;
             Array y{tensor.type, {}};
             for (int64_t i = 0; i < tensor.type.elements(); ++i) {
               y.values.push_back(static_cast<double>(i) - 7);
             }
             return y;
           },
       .uses = {{Constant{counted({4, 5})}}, {Constant{counted({0})}}},
       .integer = converts_as_weight(Constant{counted({6, 5})}),
       .refusals = {{Constant{Tensor{{DType::F32, {2}}, {}}},
                     {},
                     "value holds 0 bytes, f32[2] needs 8"}}},
  };
}

}  // namespace qtape::test
