// Random nets of all pieces with an integer form: all levels of arithmetic agree.
#include <doctest/doctest.h>

#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

TEST_CASE("convert: random nets give the same integers at every level") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Graph graph = test::random_net(seed);
    CHECK(test::disagreement({graph, seed}, seed, test::Effort::Some,
                             test::copied(graph.outputs())) == "");
  }
}

TEST_CASE("convert: a program of another batch extent is that of the graph with it") {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    CAPTURE(seed);
    test::Settled net(test::random_net(seed), seed);
    const IntegerProgram small = net.program(Requantization::SingleRounding);
    CHECK(small.with_batch(8) ==
          convert(net.graph.with_batch(8), net.parameters, Requantization::SingleRounding));
    const std::string text = to_json(small);
    const IntegerProgram again = program_from_json(text);
    CHECK(again == small);
    CHECK(to_json(again) == text);
    CHECK(to_string(again) == to_string(small));
  }
}
