// Cases of leaves, and of ops that move elements: views, transposes, concatenations and slices.
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

int from_front(int axis, const Shape& shape) { return axis < 0 ? axis + shape.rank() : axis; }

/// Returns the index of element `at` of x, without broadcasting.
size_t exact_index(std::span<const int64_t> at, const Shape& shape) {
  int64_t index = 0;
  for (int i = 0; i < shape.rank(); ++i) index = index * shape[i] + at[static_cast<size_t>(i)];
  return static_cast<size_t>(index);
}

/// Returns the gradient of moved elements: moving the numbers 0, 1, 2, ... in the same way
/// shows where each element went.
GradientOracle moved_back(const ValueOracle& value) {
  return [value](const OpUse& use, Arrays x, const Array& dy) {
    std::vector<Array> numbers;
    std::vector<Values> gradients;
    std::vector<size_t> first = {0};
    for (const Array& each : x) {
      numbers.push_back(each);
      for (size_t i = 0; i < each.values.size(); ++i) {
        numbers.back().values[i] = static_cast<double>(first.back() + i);
      }
      gradients.emplace_back(each.values.size());
      first.push_back(first.back() + each.values.size());
    }
    const Array moved = value(use, numbers);
    for (size_t i = 0; i < moved.values.size(); ++i) {
      const auto from = static_cast<size_t>(moved.values[i]);
      size_t k = 0;
      while (from >= first[k + 1]) ++k;
      gradients[k][from - first[k]] += dy.values[i];
    }
    return gradients;
  };
}

/// Returns an entry of an op that accepts every dtype and moves elements as in `value`.
OpCase moving(ValueOracle value) {
  return {.value = value, .gradient = moved_back(value), .dtypes = all_dtypes};
}

Array reshaped(const Array& x, const std::vector<int64_t>& extents) {
  return {{x.type.dtype, Shape(extents)}, x.values};
}

OpCase reshape() {
  OpCase c = moving([](const OpUse& use, Arrays x) {
    std::vector<int64_t> extents = std::get<Reshape>(use.op).shape;
    int64_t known = 1;
    for (int64_t each : extents) known *= each < 0 ? 1 : each;
    for (int64_t& each : extents) each = each < 0 ? x[0].type.elements() / known : each;
    return reshaped(x[0], extents);
  });
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
  OpCase c = moving([](const OpUse& use, Arrays x) {
    const Shape& shape = x[0].type.shape;
    const int start = from_front(std::get<Flatten>(use.op).start_axis, shape);
    std::vector<int64_t> extents;
    int64_t joined = 1;
    for (int i = 0; i < shape.rank(); ++i) {
      if (i < start) extents.push_back(shape[i]);
      if (i >= start) joined *= shape[i];
    }
    extents.push_back(joined);
    return reshaped(x[0], extents);
  });
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

OpCase transpose() {
  OpCase c = moving([](const OpUse& use, Arrays x) {
    const Shape& shape = x[0].type.shape;
    std::vector<int> permutation = std::get<Transpose>(use.op).permutation;
    for (int i = shape.rank(); permutation.size() < static_cast<size_t>(shape.rank());) {
      permutation.push_back(--i);
    }
    std::vector<int64_t> extents;
    for (int axis : permutation) extents.push_back(shape[axis]);
    Array y{{x[0].type.dtype, Shape(extents)}, {}};
    for (int64_t i = 0; i < y.type.elements(); ++i) {
      const auto at = unravel(i, y.type.shape);
      std::vector<int64_t> from(at.size());
      for (size_t k = 0; k < at.size(); ++k) {
        from[static_cast<size_t>(from_front(permutation[k], shape))] = at[k];
      }
      y.values.push_back(x[0].values[exact_index(from, shape)]);
    }
    return y;
  });
  const std::vector<std::pair<Shape, std::vector<int>>> table = {{{3, 4}, {}},
                                                                 {{}, {}},
                                                                 {{5}, {}},
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
    c.uses.push_back({Transpose{.permutation = permutation}, {{shape, 0, 100}}});
  }
  c.large = {{Transpose{}, {{{300, 301}}}},
             {Transpose{.permutation = {0, 3, 1, 2}}, {{{9, 20, 20, 30}}}}};
  c.bench = {{Transpose{}, {{{256, 512}}}}};
  c.integer = converts({Transpose{.permutation = {0, 2, 1}}, {{{4, 3, 2}}}});
  refuse(c, {f32({2, 3})},
         {{Transpose{.permutation = {0}}, "permutation names 1 axes, rank is 2"},
          {Transpose{.permutation = {0, -2}}, "axis 0 is given twice"},
          {Transpose{.permutation = {0, 2}}, "axis 2 is out of range for rank 2"}});
  c.conformance = {{Transpose{.permutation = {0, 2, 3, 1}}, {{{2, 3, 2, 4}}}},
                   {Transpose{.permutation = {0, 3, -2, 1}}, {{{1, 3, 2, 4}}}},
                   {Transpose{}, {{{3, 1, 5}}}}};
  return c;
}

OpUse joined(const Concat& op, const std::vector<Shape>& shapes) {
  OpUse use{op, {}};
  for (const Shape& shape : shapes) use.operands.push_back({shape, 0, 100});
  return use;
}

OpCase concat() {
  OpCase c = moving([](const OpUse& use, Arrays x) {
    const int axis = from_front(std::get<Concat>(use.op).axis, x[0].type.shape);
    int64_t extent = 0;
    for (const Array& each : x) extent += each.type.shape[axis];
    Array y{{x[0].type.dtype, x[0].type.shape.with(axis, extent)}, {}};
    for (int64_t i = 0; i < y.type.elements(); ++i) {
      auto at = unravel(i, y.type.shape);
      size_t k = 0;
      for (; at[static_cast<size_t>(axis)] >= x[k].type.shape[axis]; ++k) {
        at[static_cast<size_t>(axis)] -= x[k].type.shape[axis];
      }
      y.values.push_back(x[k].values[exact_index(at, x[k].type.shape)]);
    }
    return y;
  });
  const std::vector<std::pair<Concat, std::vector<Shape>>> table = {
      {{}, {{3, 4}, {2, 4}}},
      {{}, {{3}, {5}}},
      {{}, {{3, 4}, {1, 4}}},
      {{.axis = 1}, {{3, 4}, {3, 2}}},
      {{.axis = 1}, {{2, 3, 2}, {2, 2, 2}}},
      {{.axis = 1, .count = 3}, {{2, 3}, {2, 1}, {2, 4}}},
      {{.axis = -1, .count = 3}, {{2, 3, 1}, {2, 3, 17}, {2, 3, 5}}},
      {{.axis = 1, .count = 3}, {{2, 1, 4}, {2, 3, 4}, {2, 2, 4}}},
      {{.axis = -3}, {{2, 3, 4}, {1, 3, 4}}},
      {{.count = 1}, {{5}}},
      {{.count = 1}, {{2, 3}}},
      {{.axis = 1, .count = 3}, {{2, 3}, {2, 0}, {2, 4}}},
      {{.axis = 0}, {{2, 0}, {3, 0}}},
      {{.axis = 1}, {{0, 2}, {0, 3}}},
      {{.axis = 0}, {{0, 2}, {0, 2}}},
      {{.axis = 1}, {{3, 1025}, {3, 511}}},
      {{.axis = 1, .count = 64}, std::vector<Shape>(64, Shape{2, 1})}};
  for (const auto& [op, shapes] : table) c.uses.push_back(joined(op, shapes));
  c.large = {joined({}, {{90000}, {170001}}), joined({.axis = 1}, {{70000, 3}, {70000, 4}}),
             joined({.axis = -1, .count = 3}, {{7, 9, 6001}, {7, 9, 1}, {7, 9, 4000}})};
  c.bench = {joined({.axis = 1}, {{256, 256}, {256, 256}})};
  c.integer = converts({Concat{.axis = 1}, {{{4, 6}}, {{4, 6}}}});
  const int64_t half = Shape::max_elements / 2;
  refuse(c, {},
         {{Concat{.count = 0}, "count must be in 1..64, got 0"},
          {Concat{.count = 65}, "count must be in 1..64, got 65"}});
  refuse(c, Concat{.count = 3}, {{{f32({2}), f32({2})}, "expected 3 operands, got 2"}});
  refuse(c, Concat{},
         {{{f32({2}), f64({2})}, "dtypes differ: x0 is f32, x1 is f64"},
          {{f32({}), f32({})}, "axis 0 is out of range for rank 0"},
          {{f32({half + 1}), f32({half})},
           "shape [281474976710657] has more than 2^48 elements"}});
  refuse(c, Concat{.axis = 1},
         {{{f32({2, 3}), f32({3, 3})},
           "shapes must be equal except along axis 1: x0 is [2, 3], x1 is [3, 3]"}});
  refuse(c, Concat{.axis = -1, .count = 3},
         {{{f32({2, 3}), f32({2, 3}), f32({2})},
           "shapes must be equal except along axis 1: x0 is [2, 3], x2 is [2]"}});
  refuse(c, Concat{.axis = 2},
         {{{f32({2, 3}), f32({2, 3})}, "axis 2 is out of range for rank 2"}});
  return c;
}

OpCase slice() {
  OpCase c = moving([](const OpUse& use, Arrays x) {
    const auto& op = std::get<Slice>(use.op);
    const Shape& shape = x[0].type.shape;
    const int axis = from_front(op.axis, shape);
    const int64_t extent = shape[axis];
    const int64_t begin = op.begin < 0 ? op.begin + extent : op.begin;
    const int64_t last = op.end.value_or(extent);
    const int64_t end = last < 0 ? last + extent : last;
    Array y{{x[0].type.dtype, shape.with(axis, end - begin)}, {}};
    for (int64_t i = 0; i < y.type.elements(); ++i) {
      auto at = unravel(i, y.type.shape);
      at[static_cast<size_t>(axis)] += begin;
      y.values.push_back(x[0].values[exact_index(at, shape)]);
    }
    return y;
  });
  const std::vector<std::pair<Slice, Shape>> table = {
      {{.begin = 1, .end = 3}, {4, 3}},
      {{}, {5}},
      {{.begin = 2}, {5}},
      {{.begin = 1, .end = 2}, {4, 3}},
      {{.begin = -2}, {4, 3}},
      {{.begin = -4, .end = -1}, {4, 3}},
      {{.axis = 1, .begin = 1, .end = 3}, {3, 4}},
      {{.axis = 1, .begin = 1, .end = 3}, {2, 4}},
      {{.axis = -1, .begin = 1, .end = 2}, {3, 4}},
      {{.axis = -1, .begin = -3, .end = -1}, {2, 5}},
      {{.axis = 1, .begin = 1}, {2, 3, 5}},
      {{.axis = 1, .begin = 2}, {2, 3, 2}},
      {{.axis = -2, .end = -1}, {2, 3, 5}},
      {{.axis = 1, .begin = 500, .end = 1025}, {3, 1100}},
      {{.axis = 1, .begin = 2, .end = 2}, {3, 4}},
      {{.begin = 4}, {4, 3}},
      {{}, {0, 3}},
      {{.axis = 1, .begin = 1}, {0, 3}},
      {{.begin = 1}, {3, 0}}};
  for (const auto& [op, shape] : table) c.uses.push_back({op, {{shape, 0, 100}}});
  c.large = {{Slice{.begin = 1001, .end = -7}, {{{300000}}}},
             {Slice{.axis = 1, .begin = 1, .end = 4}, {{{70000, 7}}}},
             {Slice{.axis = 1, .begin = 3}, {{{5, 9, 10001}}}}};
  c.bench = {{Slice{.axis = 1, .begin = 128, .end = 384}, {{{256, 512}}}}};
  c.integer = converts({Slice{.axis = 1, .begin = 1, .end = 4}, {{{4, 6}}}});
  const std::vector<TensorType> x = {f32({4, 3})};
  refuse(c, x,
         {{Slice{.begin = 5}, "begin must be in -4..4 along axis 0, got 5"},
          {Slice{.axis = -1, .begin = -4}, "begin must be in -3..3 along axis 1, got -4"},
          {Slice{.axis = 1, .end = 4}, "end must be in -3..3 along axis 1, got 4"},
          {Slice{.end = -5}, "end must be in -4..4 along axis 0, got -5"},
          {Slice{.begin = std::numeric_limits<int64_t>::min()},
           "begin must be in -4..4 along axis 0, got -9223372036854775808"},
          {Slice{.begin = 3, .end = 1},
           "begin must not be after end along axis 0 of [4, 3], got 3 and 1"},
          {Slice{.begin = -1, .end = -2},
           "begin must not be after end along axis 0 of [4, 3], got 3 and 2"},
          {Slice{.axis = 2}, "axis 2 is out of range for rank 2"}});
  refuse(c, Slice{}, {{{f32({})}, "axis 0 is out of range for rank 0"}});
  return c;
}

OpCase pad() {
  const auto padded = [](const OpUse& use, Arrays x) {
    const auto& op = std::get<Pad>(use.op);
    const Shape& shape = x[0].type.shape;
    std::vector<int64_t> extents;
    for (int i = 0; i < shape.rank(); ++i) {
      extents.push_back(op.begin[i] + shape[i] + op.end[i]);
    }
    Array y{{x[0].type.dtype, Shape(extents)}, {}};
    for (int64_t i = 0; i < y.type.elements(); ++i) {
      auto at = unravel(i, y.type.shape);
      bool inside = true;
      for (int k = 0; k < shape.rank(); ++k) {
        int64_t& place = at[static_cast<size_t>(k)];
        place -= op.begin[k];
        inside = inside && place >= 0 && place < shape[k];
      }
      y.values.push_back(inside ? x[0].values[exact_index(at, shape)] : op.value);
    }
    return y;
  };
  OpCase c{.value = padded};
  c.gradient = [padded](const OpUse& use, Arrays x, const Array& dy) -> std::vector<Values> {
    OpUse numbered = use;
    std::get<Pad>(numbered.op).value = -1;
    Array numbers = x[0];
    for (size_t i = 0; i < numbers.values.size(); ++i) {
      numbers.values[i] = static_cast<double>(i);
    }
    const Array places = padded(numbered, std::span(&numbers, 1));
    Values dx(x[0].values.size());
    for (size_t i = 0; i < places.values.size(); ++i) {
      if (places.values[i] >= 0) dx[static_cast<size_t>(places.values[i])] = dy.values[i];
    }
    return {dx};
  };
  const std::vector<std::pair<Pad, Shape>> table = {
      {{.begin = {0, 1, 2, 0}, .end = {0, 2, 1, 0}}, {2, 3, 4, 3}},
      {{.begin = {0, 1, 0}, .end = {0, 0, 3}, .value = 0.1}, {2, 3, 4}},
      {{.begin = {1, 2}, .end = {2, 1}, .value = -2.5}, {3, 4}},
      {{.begin = {2, 0}, .end = {0, 0}}, {3, 4}},
      {{.begin = {0, 0}, .end = {0, 0}, .value = 9}, {3, 4}},
      {{.begin = {1025}, .end = {3}, .value = 7}, {17}},
      {{}, {}},
      {{.begin = {1, 0}, .end = {0, 0}, .value = 3}, {0, 3}},
      {{.begin = {0, 1}, .end = {1, 1}, .value = 3}, {3, 0}},
      {{.begin = {1, 1}, .end = {0, 1}, .value = 3}, {0, 2}},
      {{.begin = {0, 1}, .end = {0, 0}}, {0, 2}},
      {{.begin = {0, 1, 0}, .end = {0, 1, 0}}, {2, 3, 0}}};
  for (const auto& [op, shape] : table) c.uses.push_back({op, {{shape, 0, 100}}});
  c.large = {{Pad{.begin = {1, 2, 3, 0}, .end = {0, 1, 2, 0}, .value = 1}, {{{6, 40, 41, 9}}}},
             {Pad{.begin = {1, 2}, .end = {3, 4}}, {{{50000, 3}}}}};
  c.bench = {{Pad{.begin = {0, 1, 1, 0}, .end = {0, 1, 1, 0}}, {{{16, 32, 32, 32}}}}};
  c.integer = converts([](Graph& graph) {
    const FakeQuantize ema{.scale_mode = EMA{}};
    const FakeQuantize affine{.range = CodeRange::Unsigned,
                              .scheme = Scheme::Affine,
                              .scale_mode = EMA{.track = Track::Range}};
    const NodeId x = graph.add(Input{.shape = {4, 3, 2}}, {}, "x");
    std::vector<NodeId> results;
    for (const FakeQuantize& quantizer : {ema, affine, ema.with(&FakeQuantize::bits, 16)}) {
      const NodeId codes =
          add_quantizer(graph, x, quantizer, "q" + std::to_string(results.size()));
      for (double value : {0.0, 0.3, -1e9, 1e30}) {
        const Pad op{.begin = {0, 1, 0}, .end = {0, 0, 2}, .value = value};
        const NodeId y = graph.add(op, {codes});
        // Unchanged codes, summed; and codes of another grid.
        const NodeId sum =
            add_quantizer(graph, graph.add(Sum{.axes = {2}, .keep_dims = true}, {y}), ema,
                          "sum" + std::to_string(results.size()));
        const NodeId other = add_quantizer(graph, y, ema, "y" + std::to_string(results.size()));
        results.push_back(graph.add(Flatten{}, {sum}));
        results.push_back(graph.add(Flatten{}, {other}));
      }
    }
    const Concat join{.axis = 1, .count = static_cast<int>(results.size())};
    graph.set_outputs({add_quantizer(graph, graph.add(join, results), ema, "output")});
    return results[0];
  });
  const std::vector<TensorType> x = {f32({4, 3})};
  constexpr int64_t most = Shape::max_elements;
  refuse(
      c, x,
      {{Pad{}, "begin must have 2 numbers, one for each axis of x [4, 3], got []"},
       {Pad{.begin = {0, 0}, .end = {1}},
        "end must have 2 numbers, one for each axis of x [4, 3], got [1]"},
       {Pad{.begin = {most, 0}, .end = {most, 0}},
        "shape [562949953421316, 3] has more than 2^48 elements"},
       {Pad{.begin = {0, 0}, .end = {0, 0}, .value = 1e39},
        "value must be a finite f32, got 1e+39"},
       {Pad{.begin = {0, 0}, .end = {0, 0}, .value = std::numeric_limits<double>::quiet_NaN()},
        "value must be a finite f32, got nan"}});
  refuse(c, Pad{.begin = {1}, .end = {1}}, {{{s32({2})}, "expected f32 or f64, got s32"}});
  for (double value : {0.0, 0.3, -1e9}) {
    c.conformance.push_back(
        {Pad{.begin = {0, 1, 2, 0}, .end = {0, 1, 0, 0}, .value = value}, {{{1, 2, 3, 2}}}});
    c.conformance.push_back(
        {Pad{.begin = {1, 0, 1}, .end = {0, 0, 2}, .value = value}, {{{2, 3, 2}}}});
  }
  return c;
}

OpCase upsample() {
  OpCase c;
  c.value = [](const OpUse& use, Arrays x) {
    const Shape& factor = std::get<Upsample>(use.op).factor;
    const Shape& shape = x[0].type.shape;
    Shape extents = shape;
    for (int i = 0; i < factor.rank(); ++i)
      extents = extents.with(1 + i, shape[1 + i] * factor[i]);
    Array y{{x[0].type.dtype, extents}, {}};
    for (int64_t i = 0; i < y.type.elements(); ++i) {
      auto at = unravel(i, y.type.shape);
      for (int k = 0; k < factor.rank(); ++k) at[static_cast<size_t>(1 + k)] /= factor[k];
      y.values.push_back(x[0].values[exact_index(at, shape)]);
    }
    return y;
  };
  c.gradient = moved_back(c.value);
  c.dtypes = {DType::F64, DType::F32, DType::S16, DType::U16, DType::S8, DType::U8};
  const std::vector<std::pair<Upsample, Shape>> table = {{{}, {2, 3, 4, 3}},
                                                         {{.factor = {1, 1}}, {2, 3, 4, 1}},
                                                         {{.factor = {3, 1}}, {1, 2, 5, 2}},
                                                         {{.factor = {1, 3}}, {2, 2, 3, 131}},
                                                         {{.factor = {2}}, {2, 5, 3}},
                                                         {{.factor = {5}}, {1, 1, 1}},
                                                         {{}, {0, 3, 4, 3}},
                                                         {{}, {2, 0, 4, 3}},
                                                         {{}, {2, 3, 4, 0}}};
  for (const auto& [op, shape] : table) c.uses.push_back({op, {{shape, 0, 100}}});
  c.large = {{Upsample{.factor = {2, 3}}, {{{5, 31, 20, 9}}}},
             {Upsample{.factor = {4}}, {{{300, 20, 9}}}}};
  c.bench = {{Upsample{}, {{{16, 16, 16, 32}}}}};
  c.integer = converts({Upsample{.factor = {3}}, {{{4, 5, 2}}}});
  refuse(c, {f32({1, 2, 2, 1})},
         {{Upsample{.factor = {0, 2}}, "factor must be at least 1 along axis 1, got 0"},
          {Upsample{.factor = {1, Shape::max_elements}},
           "281474976710656 times 2 elements along axis 2 are more than 2^48"}});
  refuse(
      c, Upsample{},
      {{{f32({2, 3})}, "x must be [n, h, w, c] or [n, l, c], got [2, 3]"},
       {{f32({2, 3, 4})}, "factor must have 1 numbers, one for each spatial axis, got [2, 2]"},
       {{s32({1, 2, 2, 1})}, "expected f32, f64, s8, u8, s16 or u16, got s32"}});
  refuse(
      c, Upsample{.factor = {int64_t{1} << 24, int64_t{1} << 24}},
      {{{f32({1, 1, 1, 2})}, "shape [1, 16777216, 16777216, 2] has more than 2^48 elements"}});
  c.conformance = {{Upsample{.factor = {2, 3}}, {{{1, 2, 2, 2}}}},
                   {Upsample{.factor = {3}}, {{{2, 2, 3}}}}};
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
    const FakeQuantize ema{.scale_mode = EMA{}};
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
    const FakeQuantize ema{.scale_mode = EMA{}};
    graph.set_outputs({graph.add(MatMul{}, {add_quantizer(graph, x, ema, "x"),
                                            add_quantizer(graph, w, FakeQuantize{}, "w")})});
    return w;
  });
}

}  // namespace

std::vector<OpCase> structure_cases() {
  return {reshape(), flatten(),  transpose(), concat(),       slice(),
          pad(),     upsample(), embedding(), stop_gradient()};
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
       .gradient = [](const OpUse&, Arrays, const Array& dy) -> std::vector<Values> {
         return {dy.values};
       },
       .integer = converts([](Graph& graph) {
         const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
         graph.set_outputs({add_quantizer(graph, x, FakeQuantize{.scale_mode = EMA{}}, "x")});
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
       .gradient = [](const OpUse&, Arrays, const Array& dy) -> std::vector<Values> {
         return {dy.values};
       },
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
