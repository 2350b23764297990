// Cases of Gather and Interpolate.
#include <cmath>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

int64_t index_of(std::span<const int64_t> at, const Shape& shape) {
  int64_t index = 0;
  for (int i = 0; i < shape.rank(); ++i) index = index * shape[i] + at[static_cast<size_t>(i)];
  return index;
}

/// Each op between quantizers of several grids and of the result.
IntegerVerdict converts_all(const Shape& shape, const std::vector<Op>& ops) {
  return converts([shape, ops](Graph& graph) {
    const FakeQuantize ema{.scale_mode = EMA{}};
    const NodeId x = graph.add(Input{.shape = shape}, {}, "x");
    const FakeQuantize affine{.range = CodeRange::Unsigned,
                              .scheme = Scheme::Affine,
                              .scale_mode = EMA{.track = Track::Range}};
    std::vector<NodeId> results;
    NodeId first;
    for (const FakeQuantize& grid : {ema, affine, ema.with(&FakeQuantize::bits, 16)}) {
      const NodeId codes = add_quantizer(graph, x, grid, "q" + std::to_string(results.size()));
      for (const Op& op : ops) {
        const NodeId y = graph.add(op, {codes});
        if (results.empty()) first = y;
        const NodeId quantized =
            add_quantizer(graph, y, ema, "y" + std::to_string(results.size()));
        results.push_back(graph.add(Flatten{}, {quantized}));
      }
    }
    const Concat join{.axis = 1, .count = static_cast<int>(results.size())};
    graph.set_outputs({add_quantizer(graph, graph.add(join, results), ema, "output")});
    return first;
  });
}

/// Index in x of each element of y.
std::vector<size_t> gathered(const Gather& op, const Shape& x) {
  const auto axis = static_cast<size_t>(op.axis < 0 ? op.axis + x.rank() : op.axis);
  const Shape y = x.with(static_cast<int>(axis), std::ssize(op.indices));
  std::vector<size_t> from;
  for (int64_t i = 0; i < y.elements(); ++i) {
    auto at = unravel(i, y);
    at[axis] = op.indices[static_cast<size_t>(at[axis])];
    from.push_back(static_cast<size_t>(index_of(at, x)));
  }
  return from;
}

OpCase gather() {
  OpCase c;
  c.value = [](const OpUse& use, Arrays x) {
    const auto& op = std::get<Gather>(use.op);
    const Shape& shape = x[0].type.shape;
    const int axis = op.axis < 0 ? op.axis + shape.rank() : op.axis;
    Array y{{x[0].type.dtype, shape.with(axis, std::ssize(op.indices))}, {}};
    for (const size_t from : gathered(op, shape)) y.values.push_back(x[0].values[from]);
    return y;
  };
  c.gradient = [](const OpUse& use, Arrays x, const Array& dy) -> std::vector<Values> {
    Values dx(x[0].values.size());
    const auto from = gathered(std::get<Gather>(use.op), x[0].type.shape);
    for (size_t i = 0; i < from.size(); ++i) dx[from[i]] += dy.values[i];
    return {dx};
  };
  c.dtypes = {DType::F64, DType::F32, DType::S32, DType::S16, DType::U16, DType::S8, DType::U8};
  const std::vector<std::pair<Gather, Shape>> table = {
      {{.axis = 1, .indices = {2, 0, 1}}, {2, 3, 4}},
      {{.axis = 1, .indices = {3, 2, 1, 0}}, {2, 4}},
      {{.axis = -1, .indices = {0, 2, 4}}, {3, 5}},
      {{.axis = -1, .indices = {1, 1, 0, 1, 1, 2}}, {2, 3, 3}},
      {{.axis = 1, .indices = {4, 0}}, {2, 5, 131}},
      {{.axis = 0, .indices = {2, 2, 0}}, {3, 2}},
      {{.indices = {0}}, {1}},
      {{.axis = 1, .indices = {}}, {2, 3, 4}},
      {{.axis = 2, .indices = {1, 0}}, {0, 3, 2}}};
  for (const auto& [op, shape] : table) c.uses.push_back({op, {{shape, 0, 100}}});
  Gather mixed{.axis = 1};
  for (int64_t i = 0; i < 48; ++i) mixed.indices.push_back(i % 6 * 8 + i / 6);
  c.large = {{mixed, {{{300, 48, 9}}}}, {mixed, {{{3000, 48}}}}};
  mixed.axis = -1;
  c.bench = {{mixed, {{{16, 28, 28, 48}}}}};
  const Gather any{.axis = 1, .indices = {2, 0, 2, 1, 1}};
  const Gather turned{.axis = -1, .indices = {3, 2, 1, 0}};
  const Gather apart{.axis = 2, .indices = {1, 3}};
  c.integer = converts_all({4, 3, 4}, {any, turned, apart});
  refuse(c, {f32({3, 4})},
         {{Gather{.axis = 1, .indices = {0, 4}}, "indices must be in 0..3 along axis 1, got 4"},
          {Gather{.axis = -2, .indices = {-1}}, "indices must be in 0..2 along axis 0, got -1"},
          {Gather{.axis = 2}, "axis 2 is out of range for rank 2"}});
  refuse(
      c, Gather{},
      {{{TensorType{DType::F16, {2}}}, "expected f32, f64, s8, u8, s16, u16 or s32, got f16"}});
  c.conformance = {{any, {{{2, 3, 2}}}}, {turned, {{{2, 4}}}}, {apart, {{{1, 2, 4, 2}}}}};
  return c;
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
      all.back().emplace_back(index_of(at, x), weight);
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
  const std::vector<std::pair<Interpolate, Shape>> table = {
      {twice, {2, 3, 4, 3}}, {uneven, {1, 3, 4, 2}}, {uneven, {2, 1, 1, 131}},
      {corners, {2, 4, 3}},  {still, {1, 4, 2}},     {corners, {0, 4, 3}},
      {corners, {2, 4, 0}}};
  for (const auto& [op, shape] : table) c.uses.push_back({op, {{shape}}});
  c.large = {{twice, {{{500, 3, 4, 9}}}}, {corners, {{{3000, 4, 5}}}}};
  c.bench = {
      {Interpolate{.extents = {32, 32}, .step = {2, 2}, .offset = {-1, -1}, .divisor = {4, 4}},
       {{{16, 16, 16, 32}}}}};
  c.integer = converts_all({4, 3, 4, 2}, {twice, uneven});
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

}  // namespace

std::vector<OpCase> move_cases() { return {gather(), interpolate()}; }

}  // namespace qtape::test
