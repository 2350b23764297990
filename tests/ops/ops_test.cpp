// Cases beyond the table of ops: shared operands, faults, errors with their places and graphs
// of several nodes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/tape.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {

TEST_CASE("broadcast: one node as both operands gets both gradients") {
  Graph graph;
  const NodeId x = graph.add(Parameter{.dtype = DType::F64, .shape = {3}}, {}, "x");
  const NodeId y = graph.add(Mul{}, {x, x});
  Parameters parameters(graph, 1);
  std::ranges::copy(Values{1, 2, 3}, parameters.at("x").values<double>().begin());
  Tape tape(graph, parameters, {.roots = {y}});
  tape.forward(mode::float_train);
  tape.backward(y, std::span<const double>(Values{1, 1, 10}));
  CHECK(std::ranges::equal(parameters.at("x").gradients<double>(), Values{2, 4, 60}));
}

TEST_CASE("softmax_cross_entropy: the first label outside is the fault, its row is left out") {
  OpRun run(SoftmaxCrossEntropy{}, {f64({3, 2}), s32({3})}, {{0, 0, 0, 0, 0, 0}, {1, -1, 2}});
  CHECK(run.forward()[0] == doctest::Approx(std::log(2.0) / 3).epsilon(1e-15));
  REQUIRE(run.status().fault.text != nullptr);
  CHECK(to_string(run.status().fault) == "label -1 at row 1 is outside the classes");
  const Values dx = run.backward({3})[0];
  const Values expected = {0.5, -0.5, 0, 0, 0, 0};
  for (size_t i = 0; i < 6; ++i) CHECK(dx[i] == doctest::Approx(expected[i]).epsilon(1e-15));
}

TEST_CASE("embedding: the first index outside is the fault, its row is 0 without a gradient") {
  for (double outside : {-1.0, 2.0, 2147483647.0, -2147483648.0}) {
    OpRun run(Embedding{}, {f64({2, 2}), s32({4})}, {{1, 2, 3, 4}, {1, outside, 0, outside}});
    CHECK(run.forward() == Values{3, 4, 0, 0, 1, 2, 0, 0});
    REQUIRE(run.status().fault.text != nullptr);
    CHECK(to_string(run.status().fault) ==
          fmt::format("index {} at position 1 is outside the table", outside));
    CHECK(run.backward({1, 2, 3, 4, 5, 6, 7, 8})[0] == Values{5, 6, 1, 2});
  }
}

TEST_CASE("elementwise: a slope of 0 gives 0 for an infinite gradient") {
  for (const Op& op : {Op(Relu{}), Op(Clamp{.low = 1, .high = 9}), Op(Abs{}), Op(Round{})}) {
    OpRun run(op, {f32({3})}, {{0, -4, -5}});
    run.forward();
    const double inf = std::numeric_limits<double>::infinity();
    const Values dx = run.backward({inf, -inf, std::nan("")})[0];
    CAPTURE(name_of(op));
    CHECK(dx[0] == 0);
    if (!std::holds_alternative<Abs>(op)) CHECK((dx[1] == 0 && dx[2] == 0));
  }
}

TEST_CASE("pow: the reciprocal square root of -0 is +infinity") {
  OpRun run(Pow{.exponent = -0.5}, {f32({2})}, {{-0.0, 0.0}});
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(run.forward() == Values{inf, inf});
}

TEST_CASE("dropout: the rate, and draws that follow seed and step") {
  const std::vector<TensorType> types = {f64({4099})};
  const Values x(4099, 2.0);
  OpRun run(Dropout{.rate = 0.25}, types, {x});
  const Values y = run.forward();
  CHECK(run.status().applied);
  const auto dropped = std::ranges::count(y, 0.0);
  CHECK(dropped > 4099 * 0.22);
  CHECK(dropped < 4099 * 0.28);
  // Backward runs after the step was counted.
  ++run.step().number;
  CHECK(run.backward(x)[0] == y);
  CHECK(run.forward() != y);
  CHECK(OpRun(Dropout{.rate = 0.25, .seed = 5}, types, {x}).forward() != y);
  OpRun off(Dropout{}, types, {x}, {.mode = mode::eval});
  off.forward();
  CHECK_FALSE(off.status().applied);
}

TEST_CASE("cast: to integers there is no gradient to add") {
  OpRun run(Cast{.dtype = DType::S8}, {f32({1})}, {{1}}, {.accumulate = true});
  CHECK(run.backward({3})[0] == Values{0.5});
}

TEST_CASE("concat: a wrong count is refused with its place") {
  CHECK(error_text<GraphError>([] { (void)Concat{.count = -1}.slots(); }) ==
        "count must be in 1..64, got -1");
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

namespace {

/// y = w * (x2 x0 x1 x1 x2): slices of one parameter, some of them repeated, concatenated
/// again.
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
