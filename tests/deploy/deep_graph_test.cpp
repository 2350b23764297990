#include <doctest/doctest.h>

#include "qtape/deploy/convert.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/training/exact.h"

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
};

}  // namespace

TEST_CASE("convert: a graph deeper than the stack computes what the tape computes") {
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
  CHECK(std::ranges::equal(expected, got));
  CHECK(expected[0] == 0.25f);
}
