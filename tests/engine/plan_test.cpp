#include "qtape/engine/plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/engine/arena.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/models.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::copied;
using test::first_difference;

namespace {

/// Returns a random graph of matrices [6, 6] with every kind of sharing: in place, views, kept
/// operands.
Graph random_graph(uint64_t seed, int count) {
  const Random random(seed, 1);
  uint64_t next = 0;
  Graph graph;
  std::vector<NodeId> nodes = {graph.add(Input{.shape = {6, 6}}, {}, "x"),
                               graph.add(Parameter{.shape = {6, 6}}, {}, "w")};
  const auto any = [&] {
    const uint64_t back = std::min<uint64_t>(nodes.size(), 1 + random.below(next++, 6));
    return nodes[nodes.size() - back];
  };
  const Op ops[] = {MatMul{},
                    Add{},
                    Mul{},
                    Tanh{},
                    Reshape{.shape = {6, 6}},
                    Softmax{},
                    Dropout{.rate = 0.1},
                    FakeQuantize{.ste = Ste::HardTanh}};
  for (int i = 0; i < count; ++i) {
    const uint64_t kind = random.below(next++, std::size(ops));
    std::vector<NodeId> operands = {any()};
    if (kind < 3) operands.push_back(any());
    nodes.push_back(graph.add(ops[kind], operands));
  }
  // Ensures that the input and the parameter are needed.
  nodes.push_back(graph.add(MatMul{}, {nodes.back(), nodes[1]}));
  nodes.push_back(graph.add(Add{}, {nodes.back(), nodes[0]}));
  graph.add(Mean{}, {nodes.back()}, "loss");
  graph.set_outputs({graph.at("loss"), nodes[nodes.size() / 2]});
  return graph;
}

PlanOptions options_of(const Graph& graph) {
  return {.outputs = {graph.outputs().begin(), graph.outputs().end()},
          .roots = {graph.at("loss")},
          .input_gradients = {graph.at("x")}};
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  const bool in_time = a.begin <= b.end && b.begin <= a.end;
  const bool in_space = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  return in_time && in_space;
}

}  // namespace

TEST_CASE("plan: no two live buffers overlap on random graphs") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed, 60);
    const Plan memory = plan(graph, options_of(graph));
    std::string overlaps;
    for (size_t i = 0; i < memory.buffers.size(); ++i) {
      CHECK(memory.buffers[i].offset + memory.buffers[i].bytes <= memory.arena_bytes);
      for (size_t j = 0; j < i; ++j) {
        if (overlap(memory.buffers[i], memory.buffers[j]))
          overlaps += fmt::format("{} {};", i, j);
      }
    }
    CAPTURE(seed);
    CHECK(overlaps == "");
  }
}

TEST_CASE("arena: buffers of mixed sizes never overlap, and packing by size pays") {
  int smaller = 0;  // than sweeps alone, which are used for more than 2,000 buffers
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const Random random(seed, 5);
    const auto below = [&](uint64_t index, uint64_t n) {
      return static_cast<int64_t>(random.below(index, n));
    };
    std::vector<Lifetime> buffers;
    for (uint64_t i = 0; i < 60; ++i) {
      const int64_t begin = below(3 * i, 50);
      buffers.push_back({.bytes = below(3 * i + 1, 2000),
                         .begin = begin,
                         .end = begin + below(3 * i + 2, 20)});
    }
    const int64_t guard = seed % 2 == 0 ? 0 : 64;
    const int64_t bytes = assign_arena_offsets(buffers, true, guard);
    for (size_t i = 0; i < buffers.size(); ++i) {
      CHECK(buffers[i].offset + buffers[i].bytes + guard <= bytes);
      for (size_t j = 0; j < i; ++j) {
        Lifetime guarded = buffers[j];
        guarded.bytes += guard;
        Lifetime other = buffers[i];
        other.bytes += guard;
        CHECK_FALSE(overlap(guarded, other));
      }
    }
    std::vector<Lifetime> many = buffers;
    many.resize(2001, {.bytes = 1, .begin = 1000, .end = 1000});
    for (size_t i = buffers.size(); i < many.size(); ++i) {
      many[i].begin = many[i].end = 1000 + static_cast<int64_t>(i);
    }
    smaller += bytes < assign_arena_offsets(many, true, guard) ? 1 : 0;
  }
  CHECK(smaller > 10);
}

TEST_CASE("plan: the arena is at least what is in use at once, and mostly just that") {
  CHECK(largest_live_set({}) == 0);
  const Plan three{.buffers = {{0, 64, 0, 4}, {0, 1, 2, 2}, {0, 128, 3, 9}, {0, 640, 10, 11}}};
  CHECK(largest_live_set(three.buffers) == 640);
  int tight = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed, 60);
    const Plan memory = plan(graph, options_of(graph));
    CHECK(memory.arena_bytes >= largest_live_set(memory.buffers));
    tight += memory.arena_bytes <= largest_live_set(memory.buffers) * 11 / 10 ? 1 : 0;
  }
  CHECK(tight > 45);
}

TEST_CASE("plan: sharing memory changes no bit of values and gradients") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed, 60);
    std::vector<std::vector<float>> results;
    for (bool share : {false, true}) {
      Parameters parameters(graph, 3);
      const auto w = parameters.at("w").values<float>();
      for (size_t i = 0; i < w.size(); ++i) w[i] = 0.01f * static_cast<float>(i) - 0.15f;
      Tape tape(graph, parameters,
                {.roots = {graph.at("loss")}, .input_gradients = {graph.at("x")}, .threads = 1},
                PlanHooks{.share_memory = share, .guard_bytes = share ? 0 : 64});
      const auto x = tape.input<float>("x");
      for (size_t i = 0; i < x.size(); ++i) x[i] = 0.02f * static_cast<float>(i) - 0.3f;
      tape.forward(mode::qat);
      tape.backward();
      std::vector<float> all = copied(tape.value<float>(graph.outputs()[1]));
      for (const auto& more : {copied(parameters.at("w").gradients<float>()),
                               copied(tape.input_gradient<float>("x"))}) {
        all.insert(all.end(), more.begin(), more.end());
      }
      CHECK((share || tape.guards_intact()));
      results.push_back(all);
    }
    CAPTURE(seed);
    CHECK(first_difference(results[1], results[0], test::same_or_nan) == "");
  }
}

TEST_CASE("plan: what is computed of parameters alone lasts and changes no bit") {
  int64_t constants = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed, 60);
    Parameters parameters(graph, 3);
    Tape lasting(graph, parameters, {.threads = 1, .constant_parameters = true});
    Tape plain(graph, parameters, {.threads = 1});
    for (const NodePlan& node : lasting.memory().nodes) {
      constants += node.constant && node.value.kind == Place::Kind::Arena ? 1 : 0;
    }
    const Random random(seed, 2);
    for (uint64_t pass = 0; pass < 8; ++pass) {
      if (pass % 3 == 0) {
        test::fill_uniform(parameters.at("w").values<float>(), random, -0.5, 0.5, 1000 * pass);
        lasting.parameters_changed();
      }
      const Mode mode = pass % 4 == 1 ? mode::float_eval : mode::eval;
      for (Tape* tape : {&lasting, &plain}) {
        test::fill_uniform(tape->input<float>("x"), random, -0.5, 0.5, 1000 * pass + 100);
        tape->forward(mode);
      }
      CAPTURE(seed);
      CAPTURE(pass);
      for (NodeId id : graph.outputs()) {
        CHECK(first_difference(lasting.value<float>(id), plain.value<float>(id),
                               test::same_or_nan) == "");
      }
    }
  }
  CHECK(constants > 200);
}

TEST_CASE("plan: parameters are constant until their tape is told, and never with roots") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 3);
  Tape tape(c.graph, parameters, {.outputs = {c.logits}, .constant_parameters = true});
  Tape plain(c.graph, parameters, {.outputs = {c.logits}});
  const auto logits = [&](Tape& each) {
    const auto x = each.input<float>(c.x);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 0.01f * static_cast<float>(i % 97);
    each.forward(mode::eval);
    return copied(each.value<float>(c.logits));
  };
  const std::vector<float> before = logits(tape);
  CHECK(before == logits(plain));
  for (float& w : parameters.at("fc1.weight").values<float>()) w = -w;
  const std::vector<float> after = logits(plain);
  CHECK(after != before);
  CHECK(logits(tape) == before);
  tape.parameters_changed();
  CHECK(logits(tape) == after);
  tape.status(c.graph.at("fc1.weight.quantized")).enabled = false;
  plain.status(c.graph.at("fc1.weight.quantized")).enabled = false;
  CHECK(logits(tape) == logits(plain));
  CHECK(test::error_text<ArgumentError>([&] {
          Tape(c.graph, parameters, {.roots = {c.loss}, .constant_parameters = true});
        }) == "a tape with constant_parameters computes no gradients, got 1 roots");
}

TEST_CASE("plan: a weight's gradient is written where the optimizer reads it") {
  const test::Classifier c = test::make_classifier();
  const Plan memory = plan(c.graph, {.outputs = {c.logits}, .roots = {c.loss}});
  const NodeId quantized = c.graph.at("fc1.weight.quantized");
  const Place& place = memory.nodes[at(quantized)].gradient;
  CHECK(place.kind == Place::Kind::Leaf);
  CHECK(place.leaf == c.graph.at("fc1.weight"));
}

TEST_CASE("plan: nodes that no output needs do not run") {
  const test::Classifier c = test::make_classifier();
  const Plan memory = plan(c.graph, {.outputs = {c.logits}, .roots = {}});
  CHECK_FALSE(memory.nodes[at(c.loss)].needed);
  CHECK_FALSE(memory.nodes[at(c.labels)].needed);
  CHECK_FALSE(memory.nodes[at(c.logits)].active);
}

TEST_CASE("plan: a long chain shares two buffers") {
  Graph graph;
  NodeId y = graph.add(Input{.shape = {100}, .batch = false}, {}, "x");
  for (int i = 0; i < 10000; ++i) y = graph.add(Transpose{}, {y});
  const Plan memory = plan(graph, {.outputs = {y}, .roots = {}});
  CHECK(memory.arena_bytes <= 3 * 448);
}

TEST_CASE("plan: inputs that have no gradient to give are refused") {
  const test::Classifier c = test::make_classifier();
  const NodeId weight = c.graph.at("fc1.weight");
  const auto error = [&](NodeId id, std::vector<NodeId> roots) {
    return test::error_text<PlanError>([&] {
      (void)plan(c.graph,
                 {.outputs = {c.logits}, .roots = std::move(roots), .input_gradients = {id}});
    });
  };
  CHECK(error(c.x, {c.loss}) == "no error");
  CHECK(error(NodeId{99}, {c.loss}) ==
        "input %99 does not exist; the graph has " + std::to_string(c.graph.size()) + " nodes");
  CHECK(error(weight, {c.loss}) ==
        c.graph.describe(weight) + ": gradients can be requested only of inputs");
  CHECK(error(c.labels, {c.loss}) ==
        "Input %1 'labels': is s32[32], and only floats have a gradient");
  CHECK(error(c.x, {}) == "Input %0 'x': no gradient path leads from this input to a root");
  CHECK(
      error(c.x, {c.labels}) ==
      "Input %1 'labels': no gradient path leads from a parameter or a requested input to this root");
}

TEST_CASE("plan: roots and outputs that cannot be are refused") {
  const test::Classifier c = test::make_classifier();
  CHECK(test::error_text<PlanError>([&] {
          (void)plan(c.graph, {.outputs = {NodeId{99}}, .roots = {}});
        }) == "output %99 does not exist; the graph has " + std::to_string(c.graph.size()) +
                  " nodes");
  CHECK(test::error_text<PlanError>([&] {
          (void)plan(c.graph, {.outputs = {}, .roots = {c.x}});
        }) == "Input %0 'x': no gradient path leads from a parameter to this root");
}
