// Ops with two operands whose shapes broadcast, one of which may be a constant, at all levels.
#include <doctest/doctest.h>

#include "qtape/integer/rules/analysis.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/small_nets.h"
#include "qtape/tests/support/verified_models.h"

using namespace qtape;
using test::check_all;
using test::Effort;
using test::error_text;
using test::net;
using test::noise;

namespace {

using Extents = std::vector<int64_t>;

const std::vector<Op> pair_ops = {Add{}, Sub{}, Mul{}, Maximum{}, Minimum{}};

/// Returns a model of `build` applied to a convolution [1, 4, 4, 4], quantized and calibrated.
Model graph_net(const std::function<NodeId(Graph&, NodeId)>& build) {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {1, 6, 6, 3}}, {}, "x");
  const NodeId h = conv2d(graph, x, Conv2d{}, {3, 3}, {.out = 4, .label = "conv"});
  graph.set_outputs({build(graph, h)});
  return quantized(Model(std::move(graph), 2), {}, noise(), 64, 1);
}

NodeId leaf(Graph& graph, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  test::fill_uniform(std::span(values), Random(7, 1), -1, 2);
  return graph.add(Constant{.value = Tensor::of<float>(shape, values)}, {}, "c");
}

NodeId quantizer(Graph& graph, NodeId x, int bits, const std::string& label) {
  return add_quantizer(graph, x, FakeQuantize{.bits = bits, .scale_mode = EMA{}}, label);
}

/// Returns the first disagreement on `op` of inputs of these shapes and bits.
std::string disagreement(const Op& op, const Shape& a, const Shape& b, int a_bits, int b_bits,
                         int bits) {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = a}, {}, "a");
  const NodeId z = graph.add(Input{.shape = b}, {}, "b");
  const NodeId y = graph.add(
      op, {quantizer(graph, x, a_bits, "qa"), quantizer(graph, z, b_bits, "qb")}, "y");
  graph.set_outputs({quantizer(graph, y, bits, "qy")});
  return test::disagreement(test::Settled(graph, 3), 3, Effort::Some);
}

}  // namespace

TEST_CASE("pairs: shapes broadcast, in 8 and 16 bits") {
  using Pair = std::pair<Shape, Shape>;
  for (const Op& op : pair_ops) {
    for (const Pair& each :
         {Pair{{5, 3, 2, 7}, {5, 1, 1, 7}}, Pair{{5, 1, 1, 7}, {5, 3, 2, 7}},
          Pair{{5, 3, 2, 7}, {5, 3, 2, 1}}, Pair{{5, 6}, {5, 1}}, Pair{{5, 1}, {5, 6}},
          Pair{{5, 4, 1}, {5, 1, 3}}, Pair{{5, 2, 3}, {5, 2, 3}},
          Pair{{5, 2, 1, 3}, {5, 1, 4, 1}}, Pair{{5, 1}, {5, 1}}}) {
      const auto& a = each.first;
      const auto& b = each.second;
      CAPTURE(name_of(op));
      CAPTURE(to_string(a));
      CAPTURE(to_string(b));
      CHECK(disagreement(op, a, b, 8, 8, 8) == "");
      CHECK(disagreement(op, b, a, 16, 8, 16) == "");
    }
  }
}

TEST_CASE("pairs: values of many blocks, in several threads") {
  for (const Op& op : pair_ops) {
    CAPTURE(name_of(op));
    CHECK(disagreement(op, {3, 60, 61, 13}, {3, 1, 1, 13}, 8, 8, 8) == "");
    CHECK(disagreement(op, {3, 60, 61, 13}, {3, 60, 61, 1}, 8, 8, 8) == "");
    CHECK(disagreement(op, {3, 1, 61, 13}, {3, 60, 1, 1}, 8, 16, 8) == "");
  }
}

TEST_CASE("pairs: gates of channels and of positions, in C and ONNX as well") {
  check_all(net([&](const Value& h) {
    const Value pooled = node(GlobalAvgPool{.keep_dims = true}, {h});
    const Value channels = sigmoid(conv2d(pooled, 4, {1, 1}));
    const Value positions = sigmoid(conv2d(h, 1, {1, 1}));
    Value y = h;
    for (const Op& op : pair_ops) y = node(op, {node(op, {y, channels}), positions});
    for (const Op& op : pair_ops) y = node(op, {positions, node(op, {channels, y})});
    const Value rows = flatten(y);
    return linear(node(Maximum{}, {linear(rows, 5), linear(rows, 1)}), 3);
  }));
}

TEST_CASE("pairs: constants are operands on either side, with a quantizer of their own") {
  for (const Shape& shape : {Shape{4}, Shape{4, 4, 4}, Shape{1, 4, 1, 1}, Shape{1}}) {
    CAPTURE(to_string(shape));
    const Model model = graph_net([&](Graph& graph, NodeId h) {
      NodeId y = graph.add(Relu{}, {h});
      const NodeId c = leaf(graph, shape);
      for (const Op& op : pair_ops) y = graph.add(op, {c, graph.add(op, {y, c})});
      return linear(graph, graph.add(Flatten{}, {y}), {.out = 3});
    });
    // A number or a channel vector may become weights of a product.
    if (shape.rank() > 1) CHECK(model.graph().find("c.quantized"));
    check_all(model);
  }
}

TEST_CASE("pairs: constants under another shape, and side by side with codes") {
  check_all(graph_net([](Graph& graph, NodeId h) {
    const NodeId c = graph.add(Reshape{.shape = {4, 1, 4}}, {leaf(graph, {16})});
    return conv2d(graph, graph.add(Add{}, {h, c}), Conv2d{}, {2, 2},
                  {.out = 2, .label = "last"});
  }));
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {3, 4}, .batch = false}, {}, "x");
  const NodeId c = quantizer(graph, leaf(graph, {2, 4}), 8, "c");
  const NodeId y =
      graph.add(Concat{.axis = 0, .count = 3}, {c, quantizer(graph, x, 8, "qx"), c});
  graph.set_outputs({quantizer(graph, y, 8, "qy")});
  CHECK(analyze_integers(graph).refusal(y).reason == "");
  const IntegerProgram program =
      test::Settled(graph, 4).program(Requantization::SingleRounding);
  CHECK(program[program.outputs()[0]].value.type.shape == Shape{7, 4});
}

TEST_CASE(
    "pairs: a Concat reads results under another shape, each in the shape it is computed in") {
  for (const Op& op : std::vector<Op>{Add{}, Sub{}, Mul{}}) {
    CAPTURE(name_of(op));
    for (const auto& [extents, viewed] : {std::pair{Extents{-1}, Extents{-1, 1}},
                                          {Extents{-1, 1, 2}, Extents{-1, 2}},
                                          {Extents{-1, 2, 1}, Extents{-1, 2}}}) {
      Graph graph;
      const int64_t width = extents.size() == 1 ? 1 : 2;
      const NodeId x = graph.add(Input{.shape = {5, 4 * width}}, {}, "x");
      const NodeId q = quantizer(graph, x, 8, "qx");
      std::vector<NodeId> columns;
      for (int64_t k = 0; k < 4; ++k) {
        const NodeId column =
            graph.add(Slice{.axis = 1, .begin = k * width, .end = (k + 1) * width}, {q});
        columns.push_back(graph.add(Reshape{.shape = extents}, {column}));
      }
      std::vector<NodeId> parts;
      for (size_t k = 0; k < 4; k += 2) {
        const NodeId pair = graph.add(op, {columns[k], columns[k + 1]});
        parts.push_back(graph.add(Reshape{.shape = viewed}, {pair}));
      }
      const NodeId y = graph.add(Concat{.axis = 1, .count = 2}, parts);
      graph.set_outputs({quantizer(graph, y, 8, "qy")});
      CHECK(test::disagreement(test::Settled(graph, 4), 4, Effort::Some) == "");
    }
  }
}

TEST_CASE("pairs: constants in 16 bits and with a zero point") {
  for (const Op& op : pair_ops) {
    for (const FakeQuantize& of :
         {FakeQuantize{.bits = 16},
          FakeQuantize{.range = CodeRange::Unsigned, .scheme = Scheme::Affine}}) {
      Graph graph;
      const NodeId x = graph.add(Input{.shape = {5, 3, 4}}, {}, "x");
      const NodeId c = leaf(graph, {3, 1});
      const NodeId q = add_quantizer(graph, c, of, "c");
      const NodeId y = graph.add(op, {quantizer(graph, x, 8, "qx"), q}, "y");
      graph.set_outputs({quantizer(graph, y, of.bits, "qy")});
      CHECK(test::disagreement(test::Settled(graph, 4), 4, Effort::Some) == "");
    }
  }
}

TEST_CASE("pairs: what neither codes nor constants of one scale are is refused") {
  const auto refusal = [](const Op& op, const FakeQuantize& of) {
    test::Net n({2, 3});
    const NodeId a = n.quantized(n.x, FakeQuantize{.scale_mode = EMA{}}, "a");
    const NodeId c = n.quantized(n.parameter({1, 3}, "c"), of, "c");
    n.graph.set_outputs({n.add(op, {a, c}, "y")});
    return analyze_integers(n.graph).refusal(n.graph.at("y")).reason;
  };
  const std::string scales =
      "FakeQuantize %4 'c.quantized' (%3 'c' f32[1, 3]) has 3 scales; operands need one";
  for (const Op& op : pair_ops) {
    CHECK(refusal(op, {}) == "");
    CHECK(refusal(op, {.axis = 1}) == scales);
  }
}
