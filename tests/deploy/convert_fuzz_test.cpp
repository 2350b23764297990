// Random nets of all pieces with an integer form: all levels of arithmetic agree.
#include <doctest/doctest.h>

#include "qtape/tests/support/integer_nets.h"

using namespace qtape;

TEST_CASE("convert: random nets give the same integers at every level") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = test::random_net(seed);
    Parameters parameters(graph, seed);
    test::settle(graph, parameters, seed);
    CAPTURE(seed);
    CHECK(test::disagreement(graph, parameters, seed, test::Effort::Some,
                             {graph.outputs().begin(), graph.outputs().end()}) == "");
  }
}

TEST_CASE("convert: a program of another batch extent is that of the graph with it") {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    const Graph graph = test::random_net(seed);
    Parameters parameters(graph, seed);
    test::settle(graph, parameters, seed);
    CAPTURE(seed);
    const IntegerProgram small = convert(graph, parameters, Requantization::SingleRounding);
    CHECK(small.with_batch(8) ==
          convert(graph.with_batch(8), parameters, Requantization::SingleRounding));
    CHECK(program_from_json(to_json(small)) == small);
  }
}
