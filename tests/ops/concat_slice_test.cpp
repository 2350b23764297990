// Concat and Slice: values against loops, refusals word for word, and both through a tape.
#include <doctest/doctest.h>

#include <numeric>

#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/tape.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/op_checks.h"
#include "qtape/tests/support/op_references.h"

namespace qtape::test {
namespace {

size_t axis_of(int axis, const Shape& shape) {
  return static_cast<size_t>(axis < 0 ? axis + shape.rank() : axis);
}

std::vector<TensorType> types_of(const std::vector<Shape>& shapes, DType dtype) {
  std::vector<TensorType> types;
  for (const Shape& shape : shapes) types.push_back({dtype, shape});
  return types;
}

Values concat_reference(const Concat& op, const std::vector<Shape>& shapes,
                        const std::vector<Values>& x) {
  const Shape y = op.infer(types_of(shapes, DType::F64)).shape;
  const size_t axis = axis_of(op.axis, y);
  Values result;
  for (int64_t i = 0; i < y.elements(); ++i) {
    auto at = unravel(i, y);
    size_t k = 0;
    while (at[axis] >= shapes[k][static_cast<int>(axis)]) {
      at[axis] -= shapes[k++][static_cast<int>(axis)];
    }
    result.push_back(x[k][broadcast_index(at, shapes[k])]);
  }
  return result;
}

Values slice_reference(const Slice& op, const std::vector<Shape>& shapes,
                       const std::vector<Values>& x) {
  const Shape y = op.infer(types_of(shapes, DType::F64)).shape;
  const size_t axis = axis_of(op.axis, y);
  const int64_t extent = shapes[0][op.axis];
  Values result;
  for (int64_t i = 0; i < y.elements(); ++i) {
    auto at = unravel(i, y);
    at[axis] += op.begin < 0 ? op.begin + extent : op.begin;
    // Not broadcast_index: an extent of 1 that remains of more is not one to broadcast.
    int64_t from = 0;
    for (int k = 0; k < y.rank(); ++k) from = from * shapes[0][k] + at[static_cast<size_t>(k)];
    result.push_back(x[0][static_cast<size_t>(from)]);
  }
  return result;
}

/// Values and gradients at one thread and at four.
template <class X>
void check_four_threads(const X& op, const std::vector<Shape>& shapes, bool accumulate) {
  const auto [types, operands] = make_operands(Case<X>{op, shapes, nullptr}, DType::F32);
  const Values dy = random_values(op.infer(types).elements(), 99);
  OpRun<X> one(op, types, operands, {.accumulate = accumulate});
  OpRun<X> four(op, types, operands, {.threads = 4, .accumulate = accumulate});
  check_bits(four.forward(), one.forward());
  const auto expected = one.backward(dy);
  const auto got = four.backward(dy);
  for (size_t i = 0; i < expected.size(); ++i) check_bits(got[i], expected[i]);
}

/// Small integers, which every dtype holds exactly.
std::vector<Values> counted(const std::vector<Shape>& shapes) {
  std::vector<Values> values;
  double next = 1;
  for (const Shape& shape : shapes) {
    values.emplace_back(static_cast<size_t>(shape.elements()));
    for (double& x : values.back()) x = next++;
  }
  return values;
}

constexpr std::array all_dtypes = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::S32,
                                   DType::S16, DType::U16, DType::S8,  DType::U8};

/// Forward in every dtype; gradients, written and added, in every float dtype and none else.
template <class X, class Reference>
void check_dtypes(const X& op, const std::vector<Shape>& shapes, const Reference& reference) {
  const std::vector<Values> x = counted(shapes);
  for (DType dtype : all_dtypes) {
    CAPTURE(to_string_view(dtype));
    const auto types = types_of(shapes, dtype);
    OpRun<X> run(op, types, x);
    check_bits(run.forward(), reference(op, shapes, x));
    if (!is_float(dtype)) {
      CHECK_FALSE(bool(op.backward(Binding{.inputs = types,
                                           .output = run.output(),
                                           .operands = {},
                                           .gradients = std::vector<Gradient>(types.size())})));
      continue;
    }
    const Values dy = counted({run.output().shape})[0];
    const auto expected = gradients(op, types_of(shapes, DType::F64), x, dy);
    const auto plain = gradients(op, types, x, dy);
    const auto added = gradients(op, types, x, dy, {.accumulate = true});
    for (size_t i = 0; i < shapes.size(); ++i) {
      check_bits(plain[i], expected[i]);
      Values more = expected[i];
      for (double& each : more) each += 0.5;
      check_bits(added[i], more);
    }
  }
}

}  // namespace

TEST_CASE("concat: values and gradients") {
  const std::vector<std::pair<Concat, std::vector<Shape>>> table = {
      {{}, {{3}, {5}}},
      {{}, {{3, 4}, {1, 4}}},
      {{.axis = 1}, {{3, 4}, {3, 2}}},
      {{.axis = -1, .count = 3}, {{2, 3, 1}, {2, 3, 17}, {2, 3, 5}}},
      {{.axis = 1, .count = 3}, {{2, 1, 4}, {2, 3, 4}, {2, 2, 4}}},
      {{.axis = -3}, {{2, 3, 4}, {1, 3, 4}}},
      {{.count = 1}, {{2, 3}}},
      {{.axis = 1, .count = 3}, {{2, 3}, {2, 0}, {2, 4}}},
      {{.axis = 0}, {{2, 0}, {3, 0}}},
      {{.axis = 1}, {{0, 2}, {0, 3}}},
      {{.axis = 0}, {{0, 2}, {0, 2}}},
      {{.axis = 1}, {{3, 1025}, {3, 511}}}};
  for (const auto& [op, shapes] : table) check_case<Concat>({op, shapes, concat_reference});
  const std::vector<Shape> most(64, Shape{2, 1});
  const Concat all{.axis = 1, .count = 64};
  check_bits(OpRun<Concat>(all, types_of(most, DType::F32), counted(most)).forward(),
             concat_reference(all, most, counted(most)));
}

TEST_CASE("concat: every dtype, every number of threads") {
  check_dtypes(Concat{.axis = 1, .count = 3}, {{2, 3}, {2, 1}, {2, 4}}, concat_reference);
  for (bool accumulate : {false, true}) {
    check_four_threads(Concat{}, {{90000}, {170001}}, accumulate);
    check_four_threads(Concat{.axis = 1}, {{70000, 3}, {70000, 4}}, accumulate);
    check_four_threads(Concat{.axis = -1, .count = 3}, {{7, 9, 6001}, {7, 9, 1}, {7, 9, 4000}},
                       accumulate);
  }
}

TEST_CASE("concat: refusals") {
  refuses(Concat{.count = 0}, {}, "count must be in 1..64, got 0");
  refuses(Concat{.count = 65}, {}, "count must be in 1..64, got 65");
  CHECK_THROWS_WITH_AS(Concat{.count = -1}.slots(), "count must be in 1..64, got -1",
                       GraphError);
  refuses(Concat{.count = 3}, {f32({2}), f32({2})}, "expected 3 operands, got 2");
  refuses(Concat{}, {f32({2}), f64({2})}, "dtypes differ: x0 is f32, x1 is f64");
  refuses(Concat{.axis = 1}, {f32({2, 3}), f32({3, 3})},
          "shapes must be equal beside axis 1: x0 is [2, 3], x1 is [3, 3]");
  refuses(Concat{.axis = -1, .count = 3}, {f32({2, 3}), f32({2, 3}), f32({2})},
          "shapes must be equal beside axis 1: x0 is [2, 3], x2 is [2]");
  refuses(Concat{.axis = 2}, {f32({2, 3}), f32({2, 3})}, "axis 2 is out of range for rank 2");
  refuses(Concat{}, {f32({}), f32({})}, "axis 0 is out of range for rank 0");
  const int64_t half = Shape::max_elements / 2;
  refuses(Concat{}, {f32({half + 1}), f32({half})},
          "shape [281474976710657] has more than 2^48 elements");
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2, 3}}, {}, "x");
  CHECK(error_text<GraphError>([&] {
          graph.add(Concat{.count = 100}, {x, x}, "y");
        }) ==
        "Concat %1 'y' (%0 'x' f32[2, 3], %0 'x' f32[2, 3]): count must be in 1..64, got 100");
  CHECK(error_text<GraphError>([&] {
          graph.add(Concat{.count = 12}, {x, x});
        }) ==
        "Concat %1 (%0 'x' f32[2, 3], %0 'x' f32[2, 3]): operand 'x2' is missing: expected 12 "
        "operands, got 2");
}

TEST_CASE("slice: values and gradients") {
  const std::vector<std::pair<Slice, Shape>> table = {
      {{}, {5}},
      {{.begin = 2}, {5}},
      {{.begin = 1, .end = 2}, {4, 3}},
      {{.begin = -2}, {4, 3}},
      {{.begin = -4, .end = -1}, {4, 3}},
      {{.axis = 1, .begin = 1, .end = 3}, {3, 4}},
      {{.axis = -1, .begin = 1, .end = 2}, {3, 4}},
      {{.axis = 1, .begin = 1}, {2, 3, 5}},
      {{.axis = -2, .end = -1}, {2, 3, 5}},
      {{.axis = 1, .begin = 500, .end = 1025}, {3, 1100}},
      {{.axis = 1, .begin = 2, .end = 2}, {3, 4}},
      {{.begin = 4}, {4, 3}},
      {{}, {0, 3}},
      {{.axis = 1, .begin = 1}, {0, 3}},
      {{.begin = 1}, {3, 0}}};
  for (const auto& entry : table) {
    const Slice& op = entry.first;
    const Shape& shape = entry.second;
    CAPTURE(to_string(shape));
    CAPTURE(op.begin);
    check_case<Slice>({op, {shape}, slice_reference});
  }
  CHECK(Slice{.axis = -1, .begin = -3, .end = -1}.infer(std::vector{s32({2, 5})}) ==
        s32({2, 2}));
}

TEST_CASE("slice: every dtype, every number of threads") {
  check_dtypes(Slice{.axis = 1, .begin = 1, .end = 3}, {{2, 4}}, slice_reference);
  for (bool accumulate : {false, true}) {
    check_four_threads(Slice{.begin = 1001, .end = -7}, {{300000}}, accumulate);
    check_four_threads(Slice{.axis = 1, .begin = 1, .end = 4}, {{70000, 7}}, accumulate);
    check_four_threads(Slice{.axis = 1, .begin = 3}, {{5, 9, 10001}}, accumulate);
  }
}

TEST_CASE("slice: refusals") {
  const std::vector<TensorType> x = {f32({4, 3})};
  refuses(Slice{.begin = 5}, x, "begin must be in -4..4 along axis 0, got 5");
  refuses(Slice{.axis = -1, .begin = -4}, x, "begin must be in -3..3 along axis 1, got -4");
  refuses(Slice{.axis = 1, .end = 4}, x, "end must be in -3..3 along axis 1, got 4");
  refuses(Slice{.end = -5}, x, "end must be in -4..4 along axis 0, got -5");
  refuses(Slice{.begin = std::numeric_limits<int64_t>::min()}, x,
          "begin must be in -4..4 along axis 0, got -9223372036854775808");
  refuses(Slice{.begin = 3, .end = 1}, x,
          "begin must not be after end along axis 0 of [4, 3], got 3 and 1");
  refuses(Slice{.begin = -1, .end = -2}, x,
          "begin must not be after end along axis 0 of [4, 3], got 3 and 2");
  refuses(Slice{.axis = 2}, x, "axis 2 is out of range for rank 2");
  refuses(Slice{}, {f32({})}, "axis 0 is out of range for rank 0");
}

namespace {

/// y = w * (x2 x0 x1 x1 x2): slices of one parameter, one of them twice, joined again.
std::vector<double> shuffled_gradient(const TapeOptions& tape_options,
                                      const PlanHooks& hooks = {}) {
  Graph graph;
  const NodeId x = graph.add(Parameter{.dtype = DType::F64, .shape = {2, 6}}, {}, "x");
  const NodeId w = graph.add(Input{.dtype = DType::F64, .shape = {2, 10}}, {}, "w");
  std::vector<NodeId> parts;
  for (int64_t i = 0; i < 3; ++i) {
    parts.push_back(graph.add(Slice{.axis = 1, .begin = 2 * i, .end = 2 * i + 2}, {x}));
  }
  const NodeId joined = graph.add(Concat{.axis = 1, .count = 5},
                                  {parts[2], parts[0], parts[1], parts[1], parts[2]});
  const NodeId loss = graph.add(Sum{}, {graph.add(Mul{}, {joined, w})}, "loss");
  Parameters parameters(graph, 1);
  std::ranges::fill(parameters.at("x").gradients<double>(), 0.0);
  TapeOptions options = tape_options;
  options.roots = {loss};
  Tape tape(graph, parameters, std::move(options), hooks);
  const auto weights = tape.input<double>(w);
  std::iota(weights.begin(), weights.end(), 1.0);
  tape.forward(mode::float_train);
  tape.backward();
  CHECK(tape.guards_intact());
  const auto dx = parameters.at("x").gradients<double>();
  return {dx.begin(), dx.end()};
}

}  // namespace

TEST_CASE("concat and slice: gradients of parts that are used twice add up") {
  const std::vector<double> expected = {3, 4, 12, 14, 10, 12, 13, 14, 32, 34, 30, 32};
  CHECK(shuffled_gradient({}) == expected);
  CHECK(shuffled_gradient({}, {.share_memory = false, .guard_bytes = 64}) == expected);
  CHECK(shuffled_gradient({.accumulate_gradients = true}) == expected);
}

TEST_CASE("concat: operands beyond the 32 that backward could keep") {
  Graph graph;
  std::vector<NodeId> parts;
  for (int i = 0; i < 64; ++i) {
    parts.push_back(graph.add(Parameter{.shape = {3}}, {}, "p" + std::to_string(i)));
  }
  const NodeId loss = graph.add(Sum{}, {graph.add(Concat{.count = 64}, parts)}, "loss");
  Parameters parameters(graph, 1);
  Tape tape(graph, parameters, {.roots = {loss}});
  tape.forward(mode::float_train);
  tape.backward();
  for (int i = 0; i < 64; ++i) {
    const auto dx = parameters.at("p" + std::to_string(i)).gradients<float>();
    CHECK(std::ranges::count(dx, 1.0f) == 3);
  }
}

TEST_CASE("concat and slice: integers pass without a gradient") {
  Graph graph;
  const NodeId w = graph.add(Parameter{.shape = {4}}, {}, "w");
  const NodeId scale = graph.add(State{.shape = {1}, .value = 1}, {}, "scale");
  const NodeId codes = graph.add(Quantize{}, {w, scale});
  const NodeId part = graph.add(Slice{.end = 2}, {codes});
  const NodeId both = graph.add(Concat{}, {part, codes});
  const NodeId y = graph.add(Dequantize{}, {both, scale}, "y");
  Parameters parameters(graph, 1);
  CHECK(error_text<PlanError>([&] {
          Tape tape(graph, parameters, {.roots = {y}});
        }).ends_with("no gradient path leads from a parameter to this root"));
}

}  // namespace qtape::test
