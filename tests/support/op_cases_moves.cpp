// Cases of ops that move elements: transposes, concatenations, slices, borders and others.
#include <limits>

#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

using At = std::vector<int64_t>;

int from_front(int axis, Arrays x) { return axis < 0 ? axis + x[0].type.shape.rank() : axis; }

/// Returns an entry of an op X of all dtypes. `shape_of(op, x)` gives the shape of y; `from(op,
/// x, at)` changes coordinates in y to those in an operand and returns its number, or -1 for an
/// element of none, which is the op's value.
template <class X, class ShapeOf, class From>
OpCase moving(ShapeOf shape_of, From from) {
  const auto visit = [=](const OpUse& use, Arrays x, const auto& f) {
    const X& op = std::get<X>(use.op);
    const Shape y = shape_of(op, x);
    for (int64_t i = 0; i < y.elements(); ++i) {
      At at = unravel(i, y);
      const int k = from(op, x, at);
      const auto operand = static_cast<size_t>(k);
      f(static_cast<size_t>(i), k, k < 0 ? 0 : exact_index(at, x[operand].type.shape));
    }
    return y;
  };
  OpCase c{.dtypes = all_dtypes};
  c.value = [=](const OpUse& use, Arrays x) {
    Array y{x[0].type, {}};
    y.type.shape = visit(use, x, [&](size_t, int k, size_t element) {
      if constexpr (requires { X::value; }) {
        if (k < 0) return y.values.push_back(std::get<X>(use.op).value);
      }
      y.values.push_back(x[static_cast<size_t>(k)].values[element]);
    });
    return y;
  };
  c.gradient = [=](const OpUse& use, Arrays x, const Array& dy) {
    std::vector<Values> gradients;
    for (const Array& each : x) gradients.emplace_back(each.values.size());
    visit(use, x, [&](size_t i, int k, size_t element) {
      if (k >= 0) gradients[static_cast<size_t>(k)][element] += dy.values[i];
    });
    return gradients;
  };
  return c;
}

/// Returns the axis of x of each axis of y.
std::vector<int> permutation_of(const Transpose& op, Arrays x) {
  std::vector<int> permutation = op.permutation;
  const int rank = x[0].type.shape.rank();
  for (int i = rank; std::ssize(permutation) < rank;) permutation.push_back(--i);
  for (int& axis : permutation) axis = from_front(axis, x);
  return permutation;
}

OpCase transpose() {
  OpCase c = moving<Transpose>(
      [](const Transpose& op, Arrays x) {
        std::vector<int64_t> extents;
        for (int axis : permutation_of(op, x)) extents.push_back(x[0].type.shape[axis]);
        return Shape(extents);
      },
      [](const Transpose& op, Arrays x, At& at) {
        const At to = at;
        const std::vector<int> permutation = permutation_of(op, x);
        for (size_t k = 0; k < to.size(); ++k) at[static_cast<size_t>(permutation[k])] = to[k];
        return 0;
      });
  using Row = std::pair<Transpose, Shape>;
  add_shapes<Transpose>(
      c,
      {Row{{}, {3, 4}}, Row{{}, {}}, Row{{}, {5}}, Row{{.permutation = {0, 1}}, {3, 4}},
       Row{{.permutation = {1, 0}}, {33, 17}}, Row{{}, {2, 3, 4}},
       Row{{.permutation = {1, 2, 0}}, {2, 3, 4}}, Row{{.permutation = {1, 0, -1}}, {2, 3, 4}},
       Row{{.permutation = {0, 3, 1, 2}}, {2, 3, 1, 4}},
       Row{{.permutation = {3, 1, 0, 2}}, {2, 3, 4, 5}}, Row{{}, {0, 3}}, Row{{}, {1, 1025}}});
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
  OpCase c = moving<Concat>(
      [](const Concat& op, Arrays x) {
        const int axis = from_front(op.axis, x);
        int64_t extent = 0;
        for (const Array& each : x) extent += each.type.shape[axis];
        return x[0].type.shape.with(axis, extent);
      },
      [](const Concat& op, Arrays x, At& at) {
        const int axis = from_front(op.axis, x);
        int64_t& along = at[static_cast<size_t>(axis)];
        size_t k = 0;
        for (; along >= x[k].type.shape[axis]; ++k) along -= x[k].type.shape[axis];
        return static_cast<int>(k);
      });
  using Row = std::pair<Concat, std::vector<Shape>>;
  for (const auto& [op, shapes] :
       {Row{{}, {{3, 4}, {2, 4}}}, Row{{}, {{3}, {5}}}, Row{{}, {{3, 4}, {1, 4}}},
        Row{{.axis = 1}, {{3, 4}, {3, 2}}}, Row{{.axis = 1}, {{2, 3, 2}, {2, 2, 2}}},
        Row{{.axis = 1, .count = 3}, {{2, 3}, {2, 1}, {2, 4}}},
        Row{{.axis = -1, .count = 3}, {{2, 3, 1}, {2, 3, 17}, {2, 3, 5}}},
        Row{{.axis = 1, .count = 3}, {{2, 1, 4}, {2, 3, 4}, {2, 2, 4}}},
        Row{{.axis = -3}, {{2, 3, 4}, {1, 3, 4}}}, Row{{.count = 1}, {{5}}},
        Row{{.count = 1}, {{2, 3}}}, Row{{.axis = 1, .count = 3}, {{2, 3}, {2, 0}, {2, 4}}},
        Row{{.axis = 0}, {{2, 0}, {3, 0}}}, Row{{.axis = 1}, {{0, 2}, {0, 3}}},
        Row{{.axis = 0}, {{0, 2}, {0, 2}}}, Row{{.axis = 1}, {{3, 1025}, {3, 511}}},
        Row{{.axis = 1, .count = 64}, std::vector<Shape>(64, Shape{2, 1})}}) {
    c.uses.push_back(joined(op, shapes));
  }
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
  const auto ends = [](const Slice& op, Arrays x) {
    const int64_t extent = x[0].type.shape[from_front(op.axis, x)];
    const int64_t end = op.end.value_or(extent);
    return std::pair(op.begin < 0 ? op.begin + extent : op.begin, end < 0 ? end + extent : end);
  };
  OpCase c = moving<Slice>(
      [ends](const Slice& op, Arrays x) {
        const auto [begin, end] = ends(op, x);
        return x[0].type.shape.with(from_front(op.axis, x), end - begin);
      },
      [ends](const Slice& op, Arrays x, At& at) {
        at[static_cast<size_t>(from_front(op.axis, x))] += ends(op, x).first;
        return 0;
      });
  using Row = std::pair<Slice, Shape>;
  add_shapes<Slice>(
      c, {Row{{.begin = 1, .end = 3}, {4, 3}}, Row{{}, {5}}, Row{{.begin = 2}, {5}},
          Row{{.begin = 1, .end = 2}, {4, 3}}, Row{{.begin = -2}, {4, 3}},
          Row{{.begin = -4, .end = -1}, {4, 3}}, Row{{.axis = 1, .begin = 1, .end = 3}, {3, 4}},
          Row{{.axis = 1, .begin = 1, .end = 3}, {2, 4}},
          Row{{.axis = -1, .begin = 1, .end = 2}, {3, 4}},
          Row{{.axis = -1, .begin = -3, .end = -1}, {2, 5}},
          Row{{.axis = 1, .begin = 1}, {2, 3, 5}}, Row{{.axis = 1, .begin = 2}, {2, 3, 2}},
          Row{{.axis = -2, .end = -1}, {2, 3, 5}},
          Row{{.axis = 1, .begin = 500, .end = 1025}, {3, 1100}},
          Row{{.axis = 1, .begin = 2, .end = 2}, {3, 4}}, Row{{.begin = 4}, {4, 3}},
          Row{{}, {0, 3}}, Row{{.axis = 1, .begin = 1}, {0, 3}}, Row{{.begin = 1}, {3, 0}}});
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
  OpCase c = moving<Pad>(
      [](const Pad& op, Arrays x) {
        std::vector<int64_t> extents;
        for (int i = 0; i < x[0].type.shape.rank(); ++i) {
          extents.push_back(op.begin[i] + x[0].type.shape[i] + op.end[i]);
        }
        return Shape(extents);
      },
      [](const Pad& op, Arrays x, At& at) {
        bool inside = true;
        for (size_t k = 0; k < at.size(); ++k) {
          const int axis = static_cast<int>(k);
          at[k] -= op.begin[axis];
          inside = inside && at[k] >= 0 && at[k] < x[0].type.shape[axis];
        }
        return inside ? 0 : -1;
      });
  c.dtypes = computed;
  using Row = std::pair<Pad, Shape>;
  add_shapes<Pad>(c, {Row{{.begin = {0, 1, 2, 0}, .end = {0, 2, 1, 0}}, {2, 3, 4, 3}},
                      Row{{.begin = {0, 1, 0}, .end = {0, 0, 3}, .value = 0.1}, {2, 3, 4}},
                      Row{{.begin = {1, 2}, .end = {2, 1}, .value = -2.5}, {3, 4}},
                      Row{{.begin = {2, 0}, .end = {0, 0}}, {3, 4}},
                      Row{{.begin = {0, 0}, .end = {0, 0}, .value = 9}, {3, 4}},
                      Row{{.begin = {1025}, .end = {3}, .value = 7}, {17}}, Row{{}, {}},
                      Row{{.begin = {1, 0}, .end = {0, 0}, .value = 3}, {0, 3}},
                      Row{{.begin = {0, 1}, .end = {1, 1}, .value = 3}, {3, 0}},
                      Row{{.begin = {1, 1}, .end = {0, 1}, .value = 3}, {0, 2}},
                      Row{{.begin = {0, 1}, .end = {0, 0}}, {0, 2}},
                      Row{{.begin = {0, 1, 0}, .end = {0, 1, 0}}, {2, 3, 0}}});
  c.large = {{Pad{.begin = {1, 2, 3, 0}, .end = {0, 1, 2, 0}, .value = 1}, {{{6, 40, 41, 9}}}},
             {Pad{.begin = {1, 2}, .end = {3, 4}}, {{{50000, 3}}}}};
  c.bench = {{Pad{.begin = {0, 1, 1, 0}, .end = {0, 1, 1, 0}}, {{{16, 32, 32, 32}}}}};
  std::vector<Op> borders;
  for (double value : {0.0, 0.3, -1e9, 1e30}) {
    borders.emplace_back(Pad{.begin = {0, 1, 0}, .end = {0, 0, 2}, .value = value});
  }
  c.integer = converts_on_grids({4, 3, 2}, borders, true);
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
  OpCase c = moving<Upsample>(
      [](const Upsample& op, Arrays x) {
        Shape y = x[0].type.shape;
        for (int i = 0; i < op.factor.rank(); ++i) y = y.with(1 + i, y[1 + i] * op.factor[i]);
        return y;
      },
      [](const Upsample& op, Arrays, At& at) {
        for (int k = 0; k < op.factor.rank(); ++k)
          at[static_cast<size_t>(1 + k)] /= op.factor[k];
        return 0;
      });
  c.dtypes = {DType::F64, DType::F32, DType::S16, DType::U16, DType::S8, DType::U8};
  using Row = std::pair<Upsample, Shape>;
  add_shapes<Upsample>(
      c, {Row{{}, {2, 3, 4, 3}}, Row{{.factor = {1, 1}}, {2, 3, 4, 1}},
          Row{{.factor = {3, 1}}, {1, 2, 5, 2}}, Row{{.factor = {1, 3}}, {2, 2, 3, 131}},
          Row{{.factor = {2}}, {2, 5, 3}}, Row{{.factor = {5}}, {1, 1, 1}},
          Row{{}, {0, 3, 4, 3}}, Row{{}, {2, 0, 4, 3}}, Row{{}, {2, 3, 4, 0}}});
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

OpCase gather() {
  OpCase c = moving<Gather>(
      [](const Gather& op, Arrays x) {
        return x[0].type.shape.with(from_front(op.axis, x), std::ssize(op.indices));
      },
      [](const Gather& op, Arrays x, At& at) {
        int64_t& along = at[static_cast<size_t>(from_front(op.axis, x))];
        along = op.indices[static_cast<size_t>(along)];
        return 0;
      });
  c.dtypes = {DType::F64, DType::F32, DType::S32, DType::S16, DType::U16, DType::S8, DType::U8};
  using Row = std::pair<Gather, Shape>;
  add_shapes<Gather>(c, {Row{{.axis = 1, .indices = {2, 0, 1}}, {2, 3, 4}},
                         Row{{.axis = 1, .indices = {3, 2, 1, 0}}, {2, 4}},
                         Row{{.axis = -1, .indices = {0, 2, 4}}, {3, 5}},
                         Row{{.axis = -1, .indices = {1, 1, 0, 1, 1, 2}}, {2, 3, 3}},
                         Row{{.axis = 1, .indices = {4, 0}}, {2, 5, 131}},
                         Row{{.axis = 0, .indices = {2, 2, 0}}, {3, 2}},
                         Row{{.indices = {0}}, {1}}, Row{{.axis = 1, .indices = {}}, {2, 3, 4}},
                         Row{{.axis = 2, .indices = {1, 0}}, {0, 3, 2}}});
  Gather mixed{.axis = 1};
  for (int64_t i = 0; i < 48; ++i) mixed.indices.push_back(i % 6 * 8 + i / 6);
  c.large = {{mixed, {{{300, 48, 9}}}}, {mixed, {{{3000, 48}}}}};
  mixed.axis = -1;
  c.bench = {{mixed, {{{16, 28, 28, 48}}}}};
  const Gather any{.axis = 1, .indices = {2, 0, 2, 1, 1}};
  const Gather turned{.axis = -1, .indices = {3, 2, 1, 0}};
  const Gather apart{.axis = 2, .indices = {1, 3}};
  c.integer = converts_on_grids({4, 3, 4}, {any, turned, apart});
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

}  // namespace

std::vector<OpCase> move_cases() {
  return {transpose(), concat(), slice(), pad(), upsample(), gather()};
}

}  // namespace qtape::test
