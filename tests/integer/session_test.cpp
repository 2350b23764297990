#include "qtape/integer/program/session.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/core/random.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session_hooks.h"
#include "qtape/kernels/onednn/int8_exactness.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using namespace qtape::kernels;
using test::error_text;
using test::first_difference;

namespace {

const FakeQuantize fixed{.range = CodeRange::Full, .scale_mode = Fixed{}};

/// A layer with weights from `most` downwards, on codes of `input`, after a Relu if `positive`.
/// Its biases shift accumulators of 2^24 into the range where f32 represents every integer.
struct FullRange : test::Net {
  int most;

  FullRange(const FakeQuantize& input, bool positive, int64_t terms = 256, int max_weight = 127)
      : Net({16, terms}), most(max_weight) {
    NodeId y = quantized(x, input, "a");
    if (positive) y = add(Relu{}, {y});
    graph.set_outputs({layer(y, 32, "fc", fixed)});
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
  IntegerProgram program() const {
    Parameters p = parameters();
    return convert(graph, p, Requantization::FloatMultiply);
  }

  /// Returns the first mismatch of a run, empty if there is none.
  std::string mismatch(std::optional<ProductPath> path) const {
    Parameters p = parameters();
    Verifier verifier(graph, p, {.batch = 16, .threads = 2}, {.path = path});
    const Random random(2, 2);
    for (size_t i = 0; i < verifier.input().size(); ++i) {
      verifier.input()[i] = static_cast<float>(255 - random.below(i, 40));
    }
    verifier.run(16);
    return test::mismatch(verifier);
  }
};

const FakeQuantize u8{.range = CodeRange::Unsigned, .scale_mode = Fixed{}};

}  // namespace

TEST_CASE("session: the automatic choice is exact where int8 in 16-bit pairs is not") {
  for (bool positive : {false, true}) {
    for (const FakeQuantize& input : {u8, fixed, u8.with(&FakeQuantize::bits, 16)}) {
      const FullRange net(input, positive);
      CAPTURE(positive);
      CAPTURE(int8_isa());
      for (const std::optional<ProductPath> path :
           {std::optional<ProductPath>(), {ProductPath::Plain}, {ProductPath::F32}}) {
        CHECK(net.mismatch(path) == "");
      }
      // Where accumulators go through f32, pairs of codes may have 32 bits nevertheless.
      if (int8_exactness() <= Int8Exactness::Pairs) {
        const bool exact = int8_exactness() == Int8Exactness::Always;
        CHECK(net.mismatch(ProductPath::Int8).empty() == exact);
      }
    }
  }
}

TEST_CASE("session: the automatic choice is exact where int8 accumulators go through f32") {
  // No pairs exceed 16 bits; all accumulators reach 2^24, with 128 added to each s8 code.
  for (const FakeQuantize& input : {u8, fixed, u8.with(&FakeQuantize::bits, 16)}) {
    const FullRange net(input, false, 1200, 64);
    CAPTURE(int8_isa());
    const bool exact = int8_exactness() <= Int8Exactness::Pairs;
    CHECK(net.mismatch(std::nullopt) == "");
    CHECK(net.mismatch(ProductPath::Int8).empty() == exact);
  }
}

TEST_CASE("session: a report tells how each layer multiplies") {
  const IntegerProgram program = FullRange(u8, false).program();
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
    "session: kept accumulators, fused ones, shared memory and the reference are the same, run after run") {
  for (uint64_t seed = 200; seed < 210; ++seed) {
    const IntegerProgram program =
        test::Settled(test::random_net(seed), seed).program(Requantization::DoubleRounding);
    IntegerSession reference(program, {.reference = true});
    IntegerSession kept(program, {.threads = 2, .kept = KeptValues::All});
    IntegerSession fused(program, {.threads = 2, .kept = KeptValues::Codes});
    IntegerSession lean(program, {.threads = 2});
    for (uint64_t run = 0; run < 3; ++run) {
      for (IntegerSession* session : {&reference, &kept, &fused, &lean}) {
        test::fill_wild(session->input("x"), run);
        session->run();
      }
      const auto integers = [&](const IntegerSession& session, ProgramNodeId id) {
        std::vector<int64_t> all;
        for (int64_t k = 0; k < program[id].value.type.elements(); ++k) {
          all.push_back(session.integer(id, k));
        }
        return all;
      };
      CAPTURE(seed);
      for (const ProgramNodeId id : ids(program)) {
        CAPTURE(program.describe(id));
        if (lean.has_value(id))
          CHECK(test::value_of(lean, id) == test::value_of(reference, id));
        if (program[id].value.type.dtype == DType::F32) continue;
        const auto expected = integers(reference, id);
        CHECK(first_difference(integers(kept, id), expected) == "");
        if (fused.has_value(id)) CHECK(first_difference(integers(fused, id), expected) == "");
      }
      CHECK(first_difference(kept.value<float>(program.outputs()[0]),
                             fused.value<float>(program.outputs()[0])) == "");
    }
  }
}

TEST_CASE("session: works after it was moved") {
  const IntegerProgram program = FullRange(u8, false).program();
  IntegerSession first(program, {});
  IntegerSession second(std::move(first));
  std::ranges::fill(second.input("x"), 3.0f);
  second.run();
  IntegerSession reference(program, {.reference = true});
  std::ranges::fill(reference.input("x"), 3.0f);
  reference.run();
  const ProgramNodeId y = program.outputs()[0];
  CHECK(first_difference(second.value<float>(y), reference.value<float>(y)) == "");
  CHECK(error_text<GraphError>([&] { first.run(); }) ==  // NOLINT(bugprone-use-after-move)
        "this session was moved from; use the session that it was moved to");
  first = std::move(second);
  first.run();
}

TEST_CASE("session: what is not there is refused") {
  const IntegerProgram program = FullRange(u8, false).program();
  CHECK(error_text<ArgumentError>([&] { IntegerSession(program, {.threads = 0}); }) ==
        "threads must be at least 1, got 0");
  IntegerSession session(program, {.kept = KeptValues::Codes});
  CHECK(error_text<GraphError>([&] { (void)session.input("fc"); }) ==
        "Linear %2 'fc' (%1 'a.quantized' u8[16, 256]): is not an input");
  CHECK(error_text<GraphError>([&] { (void)session.input("y"); }) ==
        "no node is called 'y'; the nearest are 'x', 'fc'");
  CHECK(error_text<GraphError>([&] { (void)session.value<int8_t>("a.quantized"); }) ==
        "Quantize %1 'a.quantized' (%0 'x' f32[16, 256]): is u8[16, 256], accessed as s8");
  CHECK(
      error_text<GraphError>([&] { (void)session.integer(program.at("fc"), 0); }) ==
      "Linear %2 'fc' (%1 'a.quantized' u8[16, 256]): its value is not kept; SessionOptions::kept selects the values that are");
  CHECK(error_text<GraphError>([&] { (void)session.integer(program.at("x"), 0); }) ==
        "Input %0 'x': has no integers");
  CHECK(error_text<GraphError>([&] { (void)session.has_value(ProgramNodeId{9}); }) ==
        "node %9 does not exist; the program has 4 nodes");
  CHECK(!session.has_value(program.at("fc")));
  CHECK(session.has_value(program.at("a.quantized")));
  CHECK(!IntegerSession(program, {}).has_value(program.at("a.quantized")));
  CHECK(IntegerSession(program, {.kept = KeptValues::All}).has_value(program.at("fc")));
}
