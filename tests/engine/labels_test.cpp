#include "qtape/engine/labels.h"

#include <doctest/doctest.h>

using namespace qtape;

TEST_CASE("labels: the first number that is free") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2}}, {}, "x");
  graph.add(Relu{}, {x}, "loss");
  CHECK(unused_label(graph, "y") == "y");
  CHECK(unused_label(graph, "loss") == "loss.2");
  graph.add(Relu{}, {x}, "loss.2");
  CHECK(unused_label(graph, "loss") == "loss.3");
  CHECK(unused_label(graph, "loss", ".quantized") == "loss");
  graph.add(Relu{}, {x}, "loss.quantized");
  CHECK(unused_label(graph, "loss", ".quantized") == "loss.2");
  CHECK(unused_label(
            "fc", [](const std::string& each) { return each.size() < 3; }, "") == "fc2");
}

TEST_CASE("labels: of a node, else of the nearest that it is made of") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2}}, {}, "x");
  const NodeId one = graph.add(Relu{}, {x});
  const NodeId two = graph.add(Relu{}, {one});
  CHECK(label_near(graph, x) == "x");
  CHECK(label_near(graph, one) == "x.output");
  CHECK(label_near(graph, two) == "x.output");
}
