// Quantizers that are added to a float graph.
#include "qtape/model/passes/insert_quantizers.h"

#include <doctest/doctest.h>

#include "qtape/engine/quantizers.h"
#include "qtape/model/passes/completion.h"
#include "qtape/model/recurrent.h"
#include "qtape/tests/support/integer_nets.h"

using namespace qtape;

TEST_CASE(
    "quantizers: a constant that is a bias and a factor is quantized as the factor only") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {1, 4}}, {}, "x");
  const NodeId w = graph.add(Parameter{.shape = {4, 4}}, {}, "w");
  const NodeId b = graph.add(Parameter{.shape = {4}}, {}, "b");
  const NodeId product = graph.add(MatMul{.transpose_b = true}, {x, w});
  const NodeId sum = graph.add(AddBias{}, {product, b}, "sum");
  const NodeId scaled = graph.add(Mul{}, {graph.add(Relu{}, {sum}, "relu"), b}, "scaled");
  graph.set_outputs({scaled}, {});
  const Graph quantized = insert_quantizers(graph, calibrated_quantizers(8, 8));
  const NodeId bias = quantized[quantized.at("sum")].operands[1];
  REQUIRE(std::holds_alternative<FakeQuantizeBias>(quantized[bias].op));
  CHECK(quantized[bias].operands[0] == quantized.at("b"));
  const NodeId factor = quantized[quantized.at("scaled")].operands[1];
  CHECK(std::holds_alternative<FakeQuantize>(quantized[factor].op));
  CHECK(quantized[factor].operands[0] == quantized.at("b"));
}

TEST_CASE("quantizers: of a network without products, and of an output that is the input") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2, 4}}, {}, "x");
  const NodeId y = graph.add(Relu{}, {x}, "y");
  graph.set_outputs({y, graph.add(Reshape{.shape = {-1, 2, 2}}, {x}, "same")});
  const Graph quantized = insert_quantizers(graph, calibrated_quantizers(8, 8));
  CHECK(test::disagreement(test::Settled(quantized, 4), 4, test::Effort::Some) == "");
}

TEST_CASE("quantizers: those of all steps of a recurrent layer are found in one pass") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {1, 12, 4}}, {}, "x");
  graph.set_outputs({gru(graph, x, {.hidden = 5, .label = "gru"}).back()});
  InsertOptions options = calibrated_quantizers(8, 8);
  options.complete = false;
  const Graph products = insert_quantizers(graph, options);
  const Graph complete = complete_quantizers(products, *options.input);
  const size_t added = quantizers(complete).size() - quantizers(products).size();
  CHECK(added > 12);
  CHECK(unquantized_nodes(products).size() < added);
  // The answer is quantized once its operands are.
  CHECK(unquantized_in_order(products, *options.input).size() == added - 1);
  CHECK(unquantized_nodes(complete).empty());
}
