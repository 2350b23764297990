// Random networks, drawn by the first bytes: all levels of arithmetic, product paths,
// instruction sets, numbers of threads and uses of memory give the same integers, and a
// training step the same parameters.
#include <algorithm>
#include <cstring>
#include <string>

#include "qtape/engine/plan_hooks.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/training/exact.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/isa_limit.h"
#include "qtape/tests/support/small_nets.h"

namespace {

using namespace qtape;

/// Copies of everything that a session of random inputs gives.
std::vector<std::vector<std::byte>> outputs(const IntegerProgram& program,
                                            const SessionOptions& options, uint64_t seed) {
  IntegerSession session(program, options);
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    if (!std::holds_alternative<integer::Input>(node.op)) continue;
    if (node.value.type.dtype == DType::S32) {
      std::ranges::fill(session.input<int32_t>(id), 0);
    } else {
      test::fill_wild(session.input(id), seed);
    }
  }
  session.run();
  std::vector<std::vector<std::byte>> values;
  for (const ProgramNodeId id : program.outputs()) {
    values.push_back(test::copied(session.bytes(id)));
  }
  return values;
}

void require_equal_outputs(const IntegerProgram& program, uint64_t seed) {
  const auto expected = outputs(program, {.reference = true}, seed);
  for (const KeptValues kept : {KeptValues::Outputs, KeptValues::All}) {
    const SessionOptions options{.threads = 1 + static_cast<int>(seed % 3), .kept = kept};
    fuzz::require_equal(outputs(program, options, seed) == expected, to_string(program));
  }
}

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
       {Arithmetic{}, products_of_codes(), exact(requantization::values[seed % 4])}) {
    const Training training{graph, seed, arithmetic};
    fuzz::require_equal(
        training.parameters_after(1, true) == training.parameters_after(2, false),
        to_string(graph));
  }
}

void compare(std::string_view bytes) {
  uint64_t seed = 0;
  std::memcpy(&seed, bytes.data(), std::min(bytes.size(), sizeof seed));
  const test::IsaLimit limit(test::any_isa(seed / 6));
  // Not only networks that are refused: each of these has integers.
  test::Settled net(test::any_net(seed), seed);
  const auto all = test::copied(net.graph.outputs());
  const std::string difference = fuzz::accepted([&] {
    return test::disagreement(net.graph, net.parameters, seed, test::Effort::Some, all);
  });
  fuzz::require_equal(difference.empty(), difference);
  require_equal_outputs(net.program({.outputs = all}), seed);
  require_equal_training(net.graph, seed);
}

const fuzz::Target target("graphs", compare, [] {
  std::vector<std::string> seeds;
  for (char seed = 0; seed < 24; ++seed) seeds.emplace_back(1, seed);
  return seeds;
});

}  // namespace
