#include "qtape/engine/graph.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/engine/contract.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/models.h"

using namespace qtape;

namespace {

std::string add_error(Graph& graph, const Op& op, std::initializer_list<NodeId> operands,
                      const std::string& label = {}) {
  const Graph before = graph;
  const std::string text =
      test::error_text<GraphError>([&] { graph.add(op, operands, label); });
  CHECK(graph == before);
  return text;
}

}  // namespace

TEST_CASE("graph: an error names the op, the node, the operands and what is wrong") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 4}}, {}, "x");
  const NodeId w = graph.add(Parameter{.shape = {5, 3}}, {}, "fc1.w");
  CHECK(
      add_error(graph, MatMul{}, {x, w}, "fc1") ==
      "MatMul %2 'fc1' (%0 'x' f32[8, 4], %1 'fc1.w' f32[5, 3]): inner extents differ: 4 and 5");
  CHECK(add_error(graph, MatMul{}, {x}) ==
        "MatMul %2 (%0 'x' f32[8, 4]): operand 'b' is missing: expected 2 operands, got 1");
  CHECK(add_error(graph, Relu{}, {x, w}) ==
        "Relu %2 (%0 'x' f32[8, 4], %1 'fc1.w' f32[5, 3]): expected 1 operands, got 2");
  CHECK(add_error(graph, Relu{}, {NodeId{7}}) ==
        "Relu %2 (%7): operand %7 does not exist; the graph has 2 nodes");
  CHECK(add_error(graph, Relu{}, {x}, "x") ==
        "Relu %2 'x' (%0 'x' f32[8, 4]): label 'x' is already used by %0");
  CHECK(add_error(graph, Parameter{.shape = {2}}, {}) ==
        "Parameter %2: needs a label, by which it is found");
  CHECK(add_error(graph, FakeQuantize{.bits = 1}, {x}) ==
        "FakeQuantize %2 (%0 'x' f32[8, 4]): bits must be in 2..16 for range Narrow, got 1");
  CHECK(add_error(graph, Input{.shape = {9, 1}}, {}, "z") ==
        "Input %2 'z': batch extent is 9, but other inputs have 8");
}

TEST_CASE("graph: a text locates a node in few characters, whatever its label and operands") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {1, 1}}, {}, "x\x1b" + std::string(100, '-'));
  const std::string name = "x\\u001b" + std::string(78, '-') + "...";
  const std::vector<NodeId> many(64, x);
  const NodeId y = graph.add(Concat{.axis = 1, .count = 64}, many);
  const std::string one = fmt::format("%0 '{}' f32[1, 1], ", name);
  std::string operands;
  for (int i = 0; i < 16; ++i) operands += one;
  CHECK(graph.describe(x) == fmt::format("Input %0 '{}'", name));
  CHECK(graph.describe(y) == fmt::format("Concat %1 ({}... 64 in all)", operands));
  CHECK(graph.name(x) == "x\x1b" + std::string(100, '-'));
}

TEST_CASE("graph: a state has one writer, and its readers come after it") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 4}}, {}, "x");
  const NodeId state = graph.add(State{.shape = {1}}, {}, "scale");
  const NodeId parameter = graph.add(Parameter{.shape = {1}}, {}, "p");
  const FakeQuantize ema{.scale_mode = EMA{}};
  const FakeQuantize fixed{.scale_mode = Fixed{}};
  CHECK(
      add_error(graph, ema, {x, parameter}) ==
      "FakeQuantize %3 (%0 'x' f32[8, 4], %2 'p' f32[1]): operand 'scale' is written and must be a State, got Parameter");
  const NodeId y = graph.add(ema, {x, state});
  CHECK(
      add_error(graph, ema, {y, state}) ==
      "FakeQuantize %4 (%3 f32[8, 4], %1 'scale' f32[1]): state %1 'scale' already has a writer: %3");
  graph.add(fixed, {y, state});
  const NodeId other = graph.add(State{.shape = {1}}, {}, "other");
  graph.add(fixed, {y, other});
  CHECK(
      add_error(graph, ema, {x, other}) ==
      "FakeQuantize %7 (%0 'x' f32[8, 4], %5 'other' f32[1]): state %5 'other' is read by %6 before this node writes it");
}

TEST_CASE("graph: a norm writes states that nodes before it read, but do not keep") {
  const auto error = [](const Op& reader, bool alone) {
    Graph graph;
    const NodeId v = graph.add(Input{.shape = {8, 4}}, {}, "v");
    const NodeId c = graph.add(Parameter{.shape = {4}}, {}, "c");
    const NodeId mean = graph.add(State{.shape = {4}}, {}, "mean");
    const NodeId variance = graph.add(State{.shape = {4}}, {}, "variance");
    if (alone) {
      graph.add(reader, {mean});
    } else {
      graph.add(reader, {c, mean});
    }
    return test::error_text<GraphError>([&] {
      graph.add(BatchNormCorrection{}, {v, c, c, c, c, mean, variance});
    });
  };
  const std::string refusal =
      "BatchNormCorrection %5 (%0 'v' f32[8, 4], %1 'c' f32[4], %1 'c' f32[4], %1 'c' f32[4], %1 'c' f32[4], %2 'mean' f32[4], %3 'variance' f32[4]): state %2 'mean' is read by %4 and kept before this node writes it";
  CHECK(error(FoldFactor{}, false) == "no error");
  CHECK(error(Add{}, false) == "no error");
  CHECK(error(Mul{}, false) == refusal);
  CHECK(error(Reshape{.shape = {2, 2}}, true) == refusal);
}

TEST_CASE("graph: one that was moved from has no nodes and no batch") {
  Graph graph;
  graph.add(Input{.shape = {4, 2}}, {}, "x");
  const Graph moved = std::move(graph);
  CHECK(moved.batch() == 4);
  CHECK(graph.size() == 0);
  CHECK(!graph.batch());
  graph.add(Input{.shape = {5, 2}}, {}, "x");
  CHECK(graph.batch() == 5);
}

TEST_CASE("graph: with_batch infers every node again") {
  const test::Classifier c = test::make_classifier();
  CHECK(c.graph.batch() == 32);
  const Graph other = c.graph.with_batch(5);
  CHECK(other[c.logits].type == TensorType{DType::F32, {5, 10}});
  CHECK(other[c.loss].type == TensorType{DType::F32, {}});
  CHECK(other.with_batch(32) == c.graph);
  CHECK(test::error_text<GraphError>([&] { (void)c.graph.with_batch(0); }) ==
        "batch extent must be at least 1, got 0");
}

TEST_CASE("graph: prints one node a line with the attributes that differ from the defaults") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 4}}, {}, "x");
  const NodeId w = graph.add(Parameter{.shape = {3, 4}}, {}, "w");
  const NodeId q = graph.add(FakeQuantize{.bits = 4, .axis = 0}, {w});
  graph.add(MatMul{.transpose_b = true}, {x, q}, "y");
  CHECK(to_string(graph) ==
        "%0 'x' f32[8, 4] = Input {shape: [8, 4]}\n"
        "%1 'w' f32[3, 4] = Parameter {shape: [3, 4]}\n"
        "%2 f32[3, 4] = FakeQuantize {bits: 4, axis: 0} (%1 'w')\n"
        "%3 'y' f32[8, 3] = MatMul {transpose_b: true} (%0 'x', %2)\n");
}

TEST_CASE("graph: a label that there is not is told with the nearest") {
  Graph graph;
  CHECK(test::error_text<GraphError>([&] { (void)graph.at("fc1"); }) ==
        "no node is called 'fc1'");
  const NodeId x = graph.add(Input{.shape = {2}}, {}, "input");
  graph.add(Relu{}, {x}, "fc11");
  graph.add(Relu{}, {x}, "fc2");
  graph.add(Relu{}, {x});
  CHECK(test::error_text<GraphError>([&] { (void)graph.at("fc1"); }) ==
        "no node is called 'fc1'; the nearest are 'fc11', 'fc2'");
  CHECK(graph.at("input") == x);
}

TEST_CASE("graph: shapes that are too large or negative are refused") {
  Graph graph;
  CHECK(test::error_text<GraphError>([] {
          (void)Shape{1, -2};
        }) == "extent -2 of shape [1, -2] is negative");
  CHECK(test::error_text<GraphError>([] {
          (void)Shape{int64_t{1} << 40, int64_t{1} << 40};
        }) == "shape [1099511627776, 1099511627776] has more than 2^48 elements");
  CHECK(test::error_text<GraphError>([] { (void)Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }) ==
        "rank 9 is above the largest rank 8");
}

TEST_CASE("graph: references to nodes hold while it grows, and copies do not change") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {3}}, {}, "x");
  const Node& first = graph[x];
  const Graph before = graph;
  for (int i = 0; i < 100; ++i) (void)graph.add(Relu{}, {x});
  CHECK(&first == &graph[x]);
  CHECK(first.label == "x");
  CHECK(before.size() == 1);
  CHECK(before != graph);
  CHECK(graph.size() == 101);
  CHECK(std::ranges::count_if(graph.nodes(), [](const Node& node) {
          return std::holds_alternative<Relu>(node.op);
        }) == 100);
  const auto nodes = graph.nodes().begin();
  CHECK(&nodes[1] == &*(nodes + 1));
  CHECK(graph.nodes().end() - nodes == 101);
}

TEST_CASE("contract: output, bytes and guarantee, or why the operands do not fit") {
  const FakeQuantize op{.axis = 0, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
  const std::vector<TensorType> operands = {{DType::F32, {4, 1000}}, {DType::F32, {4}}};
  const OpContract found = contract(op, operands);
  CHECK(found.output == operands[0]);
  CHECK(found.footprint.saved == op.footprint(operands).saved);
  CHECK(found.footprint.saved >= 4 * 1000 / 8);
  CHECK(found.guarantee == Guarantee{});
  const std::vector<TensorType> matrices(2, TensorType{DType::F32, {8, 8}});
  CHECK(!contract(MatMul{}, matrices).guarantee.instruction_sets);
  CHECK(contract(MatMul{}, matrices).guarantee.threads);
  CHECK(test::error_text<GraphError>([&] { (void)contract(op, matrices); }) ==
        "scale must be f32[8], got f32[8, 8]");
  CHECK(test::error_text<GraphError>([&] { (void)contract(Relu{}, matrices); }) ==
        "expected 1 operands, got 2");
}
