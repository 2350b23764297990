// A last Softmax, which integer programs leave out.
#include "qtape/model/passes/last_softmax.h"

#include <doctest/doctest.h>

#include "qtape/model/passes/float_parts.h"

using namespace qtape;

namespace {

/// x [1, 6] and a product with 4 results.
struct Net {
  Graph graph;
  NodeId product;

  Net() {
    const NodeId x = graph.add(Input{.shape = {1, 6}}, {}, "x");
    const NodeId w = graph.add(Parameter{.shape = {6, 4}}, {}, "w");
    product = graph.add(MatMul{}, {x, w}, "fc");
  }
};

int64_t softmaxes(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(), [](const Node& node) {
    return std::holds_alternative<Softmax>(node.op) ||
           std::holds_alternative<LogSoftmax>(node.op);
  });
}

}  // namespace

TEST_CASE("last_softmax: it is left out, also behind reshapes and transposes") {
  Net net;
  Graph& graph = net.graph;
  const NodeId square = graph.add(Reshape{.shape = {-1, 2, 2}}, {net.product});
  const NodeId soft = graph.add(Softmax{.axis = 1}, {square}, "soft");
  const NodeId turned = graph.add(Transpose{.permutation = {0, 2, 1}}, {soft});
  const NodeId named = graph.add(Reshape{.shape = {-1, 1, 2, 2}}, {turned}, "out0");
  const NodeId log = graph.add(LogSoftmax{.axis = 1}, {net.product}, "log");
  graph.set_outputs({named, log, net.product}, {});
  CHECK(last_softmaxes(graph) == std::vector<NodeId>{soft, log});
  CHECK(shipped_answers(graph) == std::vector<NodeId>{square, net.product, net.product});
  const Graph cut = without_last_softmaxes(graph);
  CHECK(softmaxes(cut) == 0);
  CHECK(cut[cut.outputs()[0]].label == "out0");
  CHECK(cut[cut[cut.outputs()[0]].operands[0]].op == Op(Transpose{.permutation = {0, 2, 1}}));
  CHECK(cut[cut.outputs()[1]].label == "fc");
}

TEST_CASE("last_softmax: one that another node reads stays, and a loss does not count") {
  Net net;
  Graph& graph = net.graph;
  const NodeId soft = graph.add(Softmax{.axis = 1}, {net.product}, "soft");
  const NodeId twice = graph.add(Add{}, {soft, soft});
  graph.set_outputs({twice}, {});
  CHECK(last_softmaxes(graph).empty());
  CHECK(without_last_softmaxes(graph) == graph);
  graph.set_outputs({soft, twice}, {});
  CHECK(last_softmaxes(graph).empty());
  const NodeId best = graph.add(ArgMax{.axis = 1}, {soft}, "best");
  graph.set_outputs({soft, best}, {});
  CHECK(last_softmaxes(graph) == std::vector<NodeId>{soft});
  CHECK(shipped_answers(graph) == std::vector<NodeId>{net.product, net.product});
  graph.set_outputs({soft}, {});
  CHECK(last_softmaxes(graph) == std::vector<NodeId>{soft});
  const NodeId target = graph.add(Input{.shape = {1, 4}}, {}, "target");
  const NodeId loss = graph.add(MeanSquaredError{}, {soft, target}, "loss");
  graph.set_outputs({soft, loss}, {loss});
  CHECK(last_softmaxes(graph) == std::vector<NodeId>{soft});
  CHECK(without_last_softmaxes(graph).losses().empty());
}

TEST_CASE("last_softmax: one along another axis than that of the classes stays") {
  const auto stays = [](int axis, const std::vector<Op>& moves) {
    Net net;
    Graph& graph = net.graph;
    const NodeId square = graph.add(Reshape{.shape = {-1, 2, 2}}, {net.product});
    NodeId id = graph.add(Softmax{.axis = axis}, {square});
    if (moves.empty()) {
      CHECK(before_softmax(graph, id) == (axis == 2 ? square : id));
    }
    for (const Op& op : moves) id = graph.add(op, {id});
    graph.set_outputs({id}, {});
    return softmaxes(without_last_softmaxes(graph)) == 1;
  };
  const Transpose turn{.permutation = {0, 2, 1}};
  CHECK(stays(1, {}));
  CHECK(!stays(2, {}));
  CHECK(!stays(1, {turn}));
  CHECK(stays(2, {turn}));
  CHECK(!stays(2, {turn, turn}));
  // Of four numbers in two groups, another one can be the largest.
  CHECK(stays(2, {Flatten{}}));
  CHECK(!stays(2, {Reshape{.shape = {-1, 2, 2, 1}}}));
  CHECK(stays(2, {Reshape{.shape = {-1, 1, 4}}, Transpose{.permutation = {0, 2, 1}}}));
}

TEST_CASE("last_softmax: before an ArgMax along its axis") {
  for (const int axis : {1, -1}) {
    Net net;
    Graph& graph = net.graph;
    const NodeId square = graph.add(Reshape{.shape = {-1, 2, 2}}, {net.product});
    const NodeId soft = graph.add(Softmax{.axis = 1}, {square});
    const NodeId index = graph.add(ArgMax{.axis = axis}, {soft});
    const NodeId answer = graph.add(Cast{}, {index});
    graph.set_outputs({answer}, {});
    CAPTURE(axis);
    CHECK(softmaxes(without_last_softmaxes(graph)) == (axis == 1 ? 0 : 1));
    CHECK(shipped_answers(graph)[0] == (axis == 1 ? square : answer));
  }
}

TEST_CASE("last_softmax: the loss of class labels reads the operand of a Softmax with a name") {
  Net net;
  Graph& graph = net.graph;
  const NodeId soft = graph.add(Softmax{.axis = 1}, {net.product});
  const NodeId named = graph.add(Reshape{.shape = {-1, 4}}, {soft}, "out0");
  const NodeId other = graph.add(Reshape{.shape = {-1, 2, 2}}, {soft});
  CHECK(before_softmax(graph, named) == net.product);
  CHECK(before_softmax(graph, soft) == net.product);
  CHECK(before_softmax(graph, other) == other);
  CHECK(before_softmax(graph, net.product) == net.product);
}
