#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/deploy/convert.h"
#include "qtape/integer/program/session.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

IntegerValue codes(DType dtype, Shape shape, int32_t zero_point, int64_t low, int64_t high) {
  return {{dtype, shape}, {0.5}, zero_point, low, high};
}

/// A convolution with all weights 1.
integer::Conv ones(integer::Conv op, int64_t n, int64_t k, const IntegerValue& x) {
  const std::vector<int8_t> weights(static_cast<size_t>(n * k), 1);
  const std::vector<float> scales = {0.25f};
  op.weights.shape = {n, k};
  op.weights = pack_weights(weights, {n, k}, 8, scales, {}, op.factors(x));
  return op;
}

}  // namespace

TEST_CASE("integer conv: tape, program and its reference agree on random nets") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    CHECK(test::disagreement({test::conv_net(seed), seed}, seed, test::Effort::Some) == "");
  }
}

TEST_CASE(
    "integer conv: padding counts in certificates where no code in use is the zero point") {
  const IntegerValue x = codes(DType::U8, {1, 3, 3, 1}, 5, 10, 20);
  const integer::Conv inside = ones({.taps = {3, 3}}, 1, 9, x);
  const integer::Conv padded = ones({.taps = {3, 3}, .padding = Padding::Same}, 1, 9, x);
  const IntegerValue inputs[] = {x};
  const IntegerValue narrow = inside.infer(inputs);
  const IntegerValue wide = padded.infer(inputs);
  CHECK(narrow.type.shape == Shape{1, 1, 1, 1});
  CHECK(wide.type.shape == Shape{1, 3, 3, 1});
  // 9 (10 - 5) to 9 (20 - 5); with padding some terms may be 0.
  CHECK(narrow.low == 45);
  CHECK(narrow.high == 135);
  CHECK(wide.low == 0);
  CHECK(wide.high == 135);
  const IntegerValue signed_x = codes(DType::S8, {1, 3, 3, 1}, 100, -20, 10);
  CHECK(ones({.taps = {3, 3}}, 1, 9, signed_x).weights.certificate.part_bound == 9 * 20);
  CHECK(ones({.taps = {3, 3}, .padding = Padding::Same}, 1, 9, signed_x)
            .weights.certificate.part_bound == 9 * 100);
}

TEST_CASE("integer conv: padding may be far larger than an image") {
  test::ProgramBuilder b;
  const ProgramNodeId q = b.codes({2, 5, 1}, test::whole_grid(DType::U8, 0.5, 3));
  const integer::Conv wide{.taps = {3},
                           .stride = {700'000},
                           .dilation = {1},
                           .padding = Padding::Explicit,
                           .pads_begin = {1'400'000},
                           .pads_end = {1'400'000}};
  const ProgramNodeId y = b.conv(q, wide, 3, {{1, 1, 1}, {0.25f}}, "y");
  const IntegerProgram program = b.of({y});
  IntegerSession reference(program, {.reference = true});
  IntegerSession session(program, {});
  for (IntegerSession* each : {&reference, &session}) {
    std::ranges::fill(each->input("x"), 10.0f);
    each->run();
  }
  REQUIRE(program[y].value.type.shape == Shape{2, 5, 1});
  const auto wanted = reference.value<int32_t>(y);
  CHECK(std::ranges::equal(session.value<int32_t>(y), wanted));
  // Only the third window of each image is inside it: 3 (10 / 0.5).
  CHECK(test::copied(wanted) == std::vector<int32_t>{0, 0, 60, 0, 0, 0, 0, 60, 0, 0});
}

TEST_CASE("integer conv: attributes that do not fit are refused") {
  const IntegerValue x = codes(DType::U8, {2, 4, 5, 4}, 0, 0, 255);
  const auto error = [&](const integer::Conv& op, const IntegerValue& of) {
    const IntegerValue inputs[] = {of};
    return test::error_text<GraphError>([&] { (void)op.infer(inputs); });
  };
  const integer::Conv conv = ones({.taps = {3, 3}}, 2, 36, x);
  const auto changed = [&](auto member, const auto& value) {
    integer::Conv op = conv;
    op.*member = value;
    return error(op, x);
  };
  using C = integer::Conv;
  const IntegerValue inputs[] = {x};
  CHECK(conv.infer(inputs).type.shape == Shape{2, 2, 3, 2});
  CHECK(error(conv, codes(DType::U8, {4, 5, 4}, 0, 0, 255)) ==
        "x must be [n, h, w, c], got [4, 5, 4]");
  CHECK(error(conv, codes(DType::U8, {2, 2, 5, 4}, 0, 0, 255)) ==
        "kernel of 3 with dilation 1 spans 3 along h, padded x has 2");
  CHECK(error(conv, codes(DType::U8, {2, 4, 5, 3}, 0, 0, 255)) ==
        "[3, 3] taps of 3 channels in 1 groups do not match 36 weights");
  CHECK(changed(&C::taps, Shape{3, 3, 1}) == "taps must have 1 or 2 numbers, got [3, 3, 1]");
  CHECK(changed(&C::taps, Shape{int64_t{1} << 24, int64_t{1} << 24})
            .ends_with("do not match 36 weights"));
  CHECK(changed(&C::stride, Shape{1}) == "stride must have 2 numbers, got [1]");
  CHECK(changed(&C::stride, Shape{1, 0}) == "stride must be at least 1 along w, got 0");
  CHECK(changed(&C::groups, 0) == "groups must be at least 1, got 0");
  CHECK(changed(&C::groups, 3) ==
        "groups must divide the channels: 3 groups of 4 channels and 2 outputs");
  CHECK(changed(&C::pads_begin, Shape{1, 0}) ==
        "padding of 1 and 0 along h needs padding Explicit, got Valid");
  IntegerValue accumulators = x;
  accumulators.type.dtype = DType::S32;
  CHECK(error(conv, accumulators) == "x must be codes, got s32[2, 4, 5, 4]");
}

TEST_CASE("integer conv: quantizers find filters, and biases their grid") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2, 6, 6, 3}}, {}, "x");
  const NodeId w = graph.add(
      Parameter{.shape = {4, 3, 3, 3}, .initializer = init::KaimingNormal{}}, {}, "c.weight");
  const NodeId b = graph.add(Parameter{.shape = {4}}, {}, "c.bias");
  const NodeId y =
      graph.add(AddBias{}, {graph.add(Conv2d{.padding = Padding::Same}, {x, w}), b}, "c");
  graph.set_outputs({y});
  const Graph quantized = insert_quantizers(graph, calibrated_quantizers(8, 8));
  CHECK(quantized.find("c.weight.quantized"));
  CHECK(quantized.find("c.input.quantized"));
  CHECK(quantized.find("c.bias.quantized"));
  CHECK(test::disagreement({quantized, 1}, 1, test::Effort::All) == "");
}

TEST_CASE("integer conv: what has no integers says so") {
  test::Net net({2, 5, 5, 1});
  const NodeId q = net.quantized(net.x, FakeQuantize{.scale_mode = EMA{}}, "q");
  const NodeId w = net.parameter({3, 2, 2, 1}, "w");
  const auto refused = [&](NodeId filters) {
    Graph copy = net.graph;
    const NodeId y = copy.add(Conv2d{}, {q, filters}, "y");
    copy.set_outputs({y});
    Parameters parameters(copy, 1);
    set_qparams(copy, parameters, q, 0.05);
    return test::error_text<GraphError>([&] { (void)convert(copy, parameters, {}); });
  };
  CHECK(refused(w).find("is not quantized: quantize its output") != std::string::npos);
  CHECK(refused(q).find("the filters depend on inputs") != std::string::npos);
  // One scale per input channel.
  CHECK(refused(net.quantized(w, FakeQuantize{.axis = 1}, "w"))
            .find("weights need one scale or one per output, axis 0, got 2 scales") !=
        std::string::npos);
}
