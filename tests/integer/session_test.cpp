#include "qtape/integer/program/session.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/core/random.h"
#include "qtape/deploy/convert.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/session_hooks.h"
#include "qtape/kernels/onednn/int8_exactness.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"

using namespace qtape;
using namespace qtape::kernels;
using test::error_text;

namespace {

const FakeQuantize fixed{.range = CodeRange::Full, .scale_mode = Fixed{}};

/// A layer with weights from `most` downwards, on codes of `input`, after a Relu if `positive`.
/// Its biases shift accumulators of 2^24 into the range where f32 represents every integer.
struct FullRange {
  Graph graph;
  NodeId y;
  int most;

  FullRange(const FakeQuantize& input, bool positive, int64_t terms = 256, int max_weight = 127)
      : most(max_weight) {
    NodeId x = graph.add(Input{.shape = {16, terms}}, {}, "x");
    x = add_quantizer(graph, x, input, "a");
    if (positive) x = graph.add(Relu{}, {x});
    y = linear(graph, x, {.out = 32, .weight_quantizer = fixed, .label = "fc"});
    graph.set_outputs({y});
  }

  Parameters parameters() const {
    Parameters p(graph, 1);
    const Random random(1, 1);
    const auto w = p.at("fc.weight").values<float>();
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] = static_cast<float>(most - static_cast<int>(random.below(i, 3)));
    }
    std::ranges::fill(p.at("fc.bias").values<float>(), -0x1p24f);
    set_qparams(graph, p, graph.at("a.quantized"), 1);
    set_qparams(graph, p, graph.at("fc.weight.quantized"), 1);
    return p;
  }

  int64_t mismatches(std::optional<ProductPath> path) const {
    Parameters p = parameters();
    Verifier verifier(graph, p, {.batch = 16, .threads = 2}, {.path = path});
    const Random random(2, 2);
    for (size_t i = 0; i < verifier.input().size(); ++i) {
      verifier.input()[i] = static_cast<float>(255 - random.below(i, 40));
    }
    verifier.run(16);
    return verifier.mismatches();
  }
};

bool same_bytes(const IntegerSession& a, const IntegerSession& b, ProgramNodeId id) {
  return test::value_of(a, id) == test::value_of(b, id);
}

const FakeQuantize u8{.range = CodeRange::Unsigned, .scale_mode = Fixed{}};

}  // namespace

TEST_CASE("session: the automatic choice is exact where int8 in 16-bit pairs is not") {
  for (bool positive : {false, true}) {
    for (const FakeQuantize& input : {u8, fixed, u8.with(&FakeQuantize::bits, 16)}) {
      const FullRange net(input, positive);
      CAPTURE(positive);
      CAPTURE(int8_isa());
      const bool exact = int8_exactness() == Int8Exactness::Always;
      CHECK(net.mismatches(std::nullopt) == 0);
      CHECK(net.mismatches(ProductPath::Plain) == 0);
      CHECK(net.mismatches(ProductPath::F32) == 0);
      CHECK((net.mismatches(ProductPath::Int8) == 0) == exact);
    }
  }
}

TEST_CASE("session: the automatic choice is exact where int8 accumulators go through f32") {
  // No pairs exceed 16 bits; all accumulators reach 2^24, with 128 added to each s8 code.
  for (const FakeQuantize& input : {u8, fixed, u8.with(&FakeQuantize::bits, 16)}) {
    const FullRange net(input, false, 1200, 64);
    CAPTURE(int8_isa());
    const bool exact = int8_exactness() <= Int8Exactness::Pairs;
    CHECK(net.mismatches(std::nullopt) == 0);
    CHECK((net.mismatches(ProductPath::Int8) == 0) == exact);
  }
}

TEST_CASE("session: a report tells how each layer multiplies") {
  const FullRange net(u8, false);
  Parameters p = net.parameters();
  const IntegerProgram program = convert(net.graph, p, Requantization::FloatMultiply);
  const auto report = [&](const SessionOptions& options, const SessionHooks& hooks = {}) {
    return IntegerSession(program, options, hooks).report();
  };
  const IntegerOp& fc = program[program.at("fc")].op;
  const IntegerValue& x = program[program.at("a.quantized")].value;
  const std::string expected = explain(fc, x, std::nullopt);
  CHECK(report({}) == "fc: " + expected + "\n");
  // Without exact int8 products, some processors run rows as windows.
  CHECK((expected == explain_path(weights_of(fc)->certificate, x) ||
         expected.starts_with("rows in place, added in 32 bits by ")));
  CHECK(report({.reference = true}) == "fc: reference loops\n");
  CHECK(report({}, {.path = ProductPath::Plain}) == "fc: plain\n");
}

TEST_CASE(
    "session: kept accumulators, fused ones, shared memory and the reference are the same, run "
    "after run") {
  for (uint64_t seed = 200; seed < 210; ++seed) {
    const Graph graph = test::random_net(seed);
    Parameters parameters(graph, seed);
    test::settle(graph, parameters, seed);
    const IntegerProgram program = convert(graph, parameters, Requantization::DoubleRounding);
    IntegerSession reference(program, {.reference = true});
    IntegerSession kept(program, {.threads = 2, .kept = KeptValues::All});
    IntegerSession fused(program, {.threads = 2, .kept = KeptValues::Codes});
    IntegerSession lean(program, {.threads = 2});
    for (uint64_t run = 0; run < 3; ++run) {
      for (IntegerSession* session : {&reference, &kept, &fused, &lean}) {
        test::fill_wild(session->input("x"), run);
        session->run();
      }
      int64_t wrong = 0;
      for (const ProgramNodeId id : ids(program)) {
        if (lean.has_value(id)) CHECK(same_bytes(lean, reference, id));
        if (program[id].value.type.dtype == DType::F32) continue;
        for (int64_t k = 0; k < program[id].value.type.elements(); ++k) {
          const int64_t expected = reference.integer(id, k);
          wrong += kept.integer(id, k) == expected ? 0 : 1;
          wrong += !fused.has_value(id) || fused.integer(id, k) == expected ? 0 : 1;
        }
      }
      CAPTURE(seed);
      CHECK(wrong == 0);
      CHECK(std::ranges::equal(kept.value<float>(program.outputs()[0]),
                               fused.value<float>(program.outputs()[0])));
    }
  }
}

TEST_CASE("session: works after it was moved") {
  const FullRange net(u8, false);
  Parameters p = net.parameters();
  const IntegerProgram program = convert(net.graph, p, Requantization::FloatMultiply);
  IntegerSession first(program, {});
  IntegerSession second(std::move(first));
  std::ranges::fill(second.input("x"), 3.0f);
  second.run();
  IntegerSession reference(program, {.reference = true});
  std::ranges::fill(reference.input("x"), 3.0f);
  reference.run();
  const ProgramNodeId y = program.outputs()[0];
  CHECK(std::ranges::equal(second.value<float>(y), reference.value<float>(y)));
}

TEST_CASE("session: what is not there is refused") {
  const FullRange net(u8, false);
  Parameters p = net.parameters();
  const IntegerProgram program = convert(net.graph, p, Requantization::FloatMultiply);
  CHECK(error_text<ArgumentError>([&] { IntegerSession(program, {.threads = 0}); }) ==
        "threads must be at least 1, got 0");
  IntegerSession session(program, {.kept = KeptValues::Codes});
  CHECK(error_text<GraphError>([&] { (void)session.input("fc"); }) ==
        "Linear %2 'fc' (%1 'a.quantized' u8[16, 256]): is not an input");
  CHECK(error_text<GraphError>([&] { (void)session.input("y"); }) ==
        "no node is called 'y'; the nearest are 'x', 'fc'");
  CHECK(error_text<GraphError>([&] { (void)session.value<int8_t>("a.quantized"); }) ==
        "Quantize %1 'a.quantized' (%0 'x' f32[16, 256]): is u8[16, 256], accessed as s8");
  CHECK(error_text<GraphError>([&] { (void)session.integer(program.at("fc"), 0); }) ==
        "Linear %2 'fc' (%1 'a.quantized' u8[16, 256]): its value is not kept; "
        "SessionOptions::kept selects the values that are");
  CHECK(error_text<GraphError>([&] { (void)session.integer(program.at("x"), 0); }) ==
        "Input %0 'x': has no integers");
  CHECK(error_text<GraphError>([&] { (void)session.has_value(ProgramNodeId{9}); }) ==
        "node %9 does not exist; the program has 4 nodes");
  CHECK(!session.has_value(program.at("fc")));
  CHECK(session.has_value(program.at("a.quantized")));
  CHECK(!IntegerSession(program, {}).has_value(program.at("a.quantized")));
  CHECK(IntegerSession(program, {.kept = KeptValues::All}).has_value(program.at("fc")));
}
