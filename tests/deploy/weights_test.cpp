#include "qtape/deploy/weights.h"

#include <doctest/doctest.h>

#include <bit>
#include <limits>
#include <map>

#include "qtape/integer/rules/analysis.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

const FakeQuantize fixed{.scale_mode = Fixed{}};

struct Seen {
  std::vector<float> raw;
  std::vector<float> values;
  std::vector<QParams<double>> qparams;
  std::string fault;
};

std::map<NodeId, Seen> visited(const Graph& graph, Parameters& parameters,
                               const std::vector<NodeId>& ids) {
  std::map<NodeId, Seen> seen;
  visit_weights(graph, parameters, ids, [&](NodeId id, const WeightView& view) {
    CHECK(!seen.contains(id));
    seen[id] = {test::copied(view.raw), test::copied(view.values), view.qparams, view.fault};
  });
  return seen;
}

std::vector<NodeId> weights_of(const Graph& graph) {
  const IntegerAnalysis analysis = analyze_integers(graph);
  std::vector<NodeId> ids;
  for (NodeId id : quantizers(graph)) {
    if (analysis[id].kind == IntegerKind::Weight) ids.push_back(id);
  }
  return ids;
}

constexpr auto same_bits = [](float v, float w) {
  return std::bit_cast<uint32_t>(v) == std::bit_cast<uint32_t>(w);
};

}  // namespace

TEST_CASE("weights: those of random nets have the bits of a tape of the whole net") {
  size_t all = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    test::Settled net(test::random_net(seed), seed);
    const Graph& graph = net.graph;
    const std::vector<NodeId> ids = weights_of(graph);
    const auto seen = visited(graph, net.parameters, ids);
    CHECK(seen.size() == ids.size());
    all += ids.size();
    for (const auto& [id, weight] : seen) {
      const NodeId raw = graph[id].operands[0];
      Tape tape(graph, net.parameters, {.outputs = {id, raw}, .threads = 2});
      tape.forward(mode::eval);
      CHECK(weight.fault == "");
      CHECK(test::first_difference(weight.values, tape.value<float>(id), same_bits) == "");
      CHECK(test::first_difference(weight.raw, tape.value<float>(raw), same_bits) == "");
      CHECK(weight.qparams == tape.qparams(id));
    }
  }
  CHECK(all > 40);
}

TEST_CASE("weights: a fault is told of what depends on it, and of nothing else") {
  Graph graph;
  graph.add(Input{.shape = {1, 2}}, {}, "x");
  const auto parameter = [&](const char* label) {
    return graph.add(Parameter{.shape = {2, 2}, .initializer = init::Fill{1}}, {}, label);
  };
  const NodeId alone = add_quantizer(graph, parameter("alone"), fixed, "alone");
  const NodeId unset = add_quantizer(graph, parameter("unset"), fixed, "unset");
  const NodeId base = parameter("base");
  const NodeId inner = add_quantizer(graph, base, fixed, "inner");
  const NodeId sum = graph.add(Add{}, {inner, base});
  const NodeId outer = add_quantizer(graph, sum, FakeQuantize{}, "outer");
  const NodeId beside = add_quantizer(graph, base, FakeQuantize{}, "beside");
  Parameters parameters(graph, 1);
  set_qparams(graph, parameters, alone, 0.5);
  const auto seen = visited(graph, parameters, {alone, unset, inner, outer, beside});
  const std::string text = "scale of channel 0 is 0; set it with set_qparams or calibrate";
  CHECK(seen.at(alone).fault == "");
  CHECK(seen.at(alone).values == std::vector<float>(4, 1.0f));
  CHECK(seen.at(unset).fault == text);
  CHECK(seen.at(inner).fault == text);
  CHECK(seen.at(outer).fault == graph.describe(inner) + ": " + text);
  CHECK(!seen.contains(beside));
}
