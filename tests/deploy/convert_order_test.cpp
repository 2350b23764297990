#include "qtape/deploy/convert_order.h"

#include <doctest/doctest.h>

#include "qtape/deploy/convert.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/training/exact.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

/// An input and a chain of `count` quantizers, listed in `ids`.
struct Chain {
  Graph graph;
  std::vector<NodeId> ids;

  explicit Chain(int count) {
    NodeId x = graph.add(Input{.shape = {1, 3}}, {}, "x");
    const NodeId scale = graph.add(State{.shape = {1}, .value = 0.25}, {}, "scale");
    for (int i = 0; i < count; ++i) {
      x = graph.add(FakeQuantize{.scale_mode = Fixed{}}, {x, scale});
      ids.push_back(x);
    }
    graph.set_outputs({x});
  }
  std::vector<NodeId> early(int max_depth) const {
    return early_sources(graph, analyze_integers(graph), graph.outputs(), max_depth);
  }
};

}  // namespace

TEST_CASE("convert order: every so many sources of a chain come early, the first ones first") {
  const Chain chain(10);
  CHECK(chain.early(11) == std::vector<NodeId>{});
  CHECK(chain.early(4) == std::vector<NodeId>{chain.ids[3], chain.ids[7]});
  CHECK(chain.early(1) == chain.ids);
}

TEST_CASE("convert order: usual nets keep the order of recursion") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = test::random_net(seed);
    CHECK(early_sources(graph, analyze_integers(graph), graph.outputs()) ==
          std::vector<NodeId>{});
  }
}

TEST_CASE("convert order: branches count by the deepest, each source comes once") {
  const FakeQuantize fixed{.scale_mode = Fixed{}};
  test::Net net({1, 3});
  const NodeId a = net.quantized(net.x, fixed, "a");
  const NodeId b = net.quantized(a, fixed, "b");
  const NodeId join = net.add(Concat{.axis = 1, .count = 2}, {net.add(Add{}, {a, b}), a});
  const NodeId y = net.quantized(join, fixed, "y");
  const NodeId z = net.add(Relu{}, {y});
  const auto early = [&](int max_depth) {
    return early_sources(net.graph, analyze_integers(net.graph), std::vector<NodeId>{z, y},
                         max_depth);
  };
  CHECK(early(1) == std::vector<NodeId>{a, b, y, z});
  CHECK(early(2) == std::vector<NodeId>{b, y});
  CHECK(early(3) == std::vector<NodeId>{y});
}

TEST_CASE("convert order: a graph deeper than a stack is converted, and right") {
  const Chain chain(60000);
  Parameters parameters(chain.graph, 1);
  const IntegerProgram program =
      convert(chain.graph, parameters, Requantization::SingleRounding);
  CHECK(program.size() == 60002);
  Tape tape(chain.graph, parameters, {.arithmetic = exact(Requantization::SingleRounding)});
  IntegerSession session(program, {});
  for (const auto& x : {tape.input<float>("x"), session.input("x")}) {
    x[0] = 0.3f;
    x[1] = -7;
    x[2] = 100;
  }
  tape.forward(mode::eval);
  session.run();
  const auto expected = tape.value<float>(chain.ids.back());
  const auto got = session.value<float>(program.outputs()[0]);
  CHECK(test::first_difference(got, expected) == "");
  CHECK(expected[0] == 0.25f);
}
