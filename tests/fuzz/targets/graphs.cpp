// Random networks, drawn by the first bytes: all levels of arithmetic, product paths, numbers
// of threads and uses of memory give the same integers at an instruction set that is drawn as
// well, and two training steps the same parameters.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qtape/engine/plan_hooks.h"
#include "qtape/integer/training/exact.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/fuzz/sessions.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/isa_limit.h"
#include "qtape/tests/support/small_nets.h"

namespace {

using namespace qtape;

/// A random net with a loss, and how to train it.
struct Training {
  const Graph& graph;
  uint64_t seed;
  Arithmetic arithmetic = {};

  /// Returns the hash of the parameters after two steps.
  std::string parameters_after(int threads, bool share_memory) const {
    test::Settled net(graph, seed);
    Tape tape(graph, net.parameters,
              {.roots = {graph.at("loss")}, .threads = threads, .arithmetic = arithmetic},
              PlanHooks{.share_memory = share_memory});
    Optimizer optimizer(net.parameters, Sgd{}, {}, threads);
    for (uint64_t step = 0; step < 2; ++step) {
      for (const Node& node : graph.nodes()) {
        if (!std::holds_alternative<Input>(node.op)) continue;
        if (node.type.dtype == DType::S32) {
          std::ranges::fill(tape.input<int32_t>(node.label), 0);
        } else {
          test::fill_uniform(tape.input<float>(node.label), Random(step, 1), -2, 3);
        }
      }
      tape.forward(mode::qat);
      tape.backward();
      optimizer.step(1e-2);
    }
    return net.parameters.sha256();
  }
};

void require_equal_training(Graph graph, uint64_t seed) {
  const NodeId y = graph.outputs()[0];
  if (graph[y].type.dtype != DType::F32) return;
  // Also nets without parameters get gradients.
  const NodeId factor = graph.add(Parameter{.shape = {1}}, {}, "factor");
  const NodeId scaled = graph.add(Mul{}, {y, factor});
  graph.set_outputs({graph.add(Mean{}, {graph.add(Mul{}, {scaled, scaled})}, "loss")});
  for (const Arithmetic& arithmetic :
       {Arithmetic{}, products_of_codes(),
        exact(requantization::values[seed % requantization::values.size()])}) {
    const Training training{graph, seed, arithmetic};
    if (training.parameters_after(1, true) != training.parameters_after(2, false)) {
      throw fuzz::Finding(to_string(graph));
    }
  }
}

void compare(uint64_t seed) {
  const test::IsaLimit limit(test::any_isa(seed / 6));
  test::Settled net(test::any_net(seed), seed);
  const auto all = test::copied(net.graph.outputs());
  const std::string difference =
      test::disagreement(net.graph, net.parameters, seed, test::Effort::Some, all);
  if (!difference.empty()) throw fuzz::Finding(difference);
  fuzz::require_equal_outputs(net.program({.outputs = all}), seed);
  require_equal_training(net.graph, seed);
}

void draw_and_compare(std::string_view bytes) {
  uint64_t seed = 0;
  for (size_t i = 0; i < std::min(bytes.size(), sizeof seed); ++i) {
    seed |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  }
  // Each of these nets has integers, so no error is expected.
  fuzz::accepted([&] { return compare(seed); });
}

const fuzz::Target target("graphs", draw_and_compare, [] {
  std::vector<std::string> seeds;
  for (char seed = 0; seed < 24; ++seed) seeds.emplace_back(1, seed);
  return seeds;
});

}  // namespace
