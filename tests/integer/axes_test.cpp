// Integer ops over axes, and programs whose inputs and outputs have their channels first.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "qtape/engine/channel_axis.h"
#include "qtape/integer/program/channels_first.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/model/layers.h"
#include "qtape/model/value.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"

using namespace qtape;

namespace {

/// Returns x [n, ..., c] as [n, c, ...].
Tensor moved(const Tensor& x) {
  const Shape& shape = x.type.shape;
  if (shape.rank() < 3) return x;
  std::vector<int64_t> extents{shape[0], shape[-1]};
  for (int k = 1; k + 1 < shape.rank(); ++k) extents.push_back(shape[k]);
  Tensor y{{x.type.dtype, Shape(extents)}, std::vector<std::byte>(x.data.size())};
  const int64_t c = shape[-1];
  const int64_t positions = shape.elements() / shape[0] / c;
  const auto size = static_cast<size_t>(size_of(x.type.dtype));
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const int64_t to = (i / (positions * c) * c + i % c) * positions + i / c % positions;
    std::memcpy(y.data.data() + static_cast<size_t>(to) * size,
                x.data.data() + static_cast<size_t>(i) * size, size);
  }
  return y;
}

/// Returns the values of the outputs for an input that is filled wildly, moved if `first`.
std::vector<Tensor> answers(const IntegerProgram& program, const Shape& last, uint64_t seed,
                            bool first, bool reference = false) {
  std::vector<float> values(static_cast<size_t>(last.elements()));
  test::fill_wild(values, seed);
  const Tensor x = Tensor::of<float>(last, values);
  IntegerSession session(program, {.reference = reference});
  test::feed_inputs(session, {first ? moved(x) : x});
  session.run();
  std::vector<Tensor> all;
  for (const ProgramNodeId id : program.outputs()) all.push_back(test::value_of(session, id));
  return all;
}

}  // namespace

TEST_CASE("integer axes: tape, program and its reference agree on random nets") {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    CHECK(test::disagreement({test::axes_net(seed), seed}, seed, test::Effort::Some) == "");
  }
}

TEST_CASE("channels first: inputs and outputs are moved, and no value changes") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const IntegerProgram program =
        test::Settled(test::any_net(seed), seed).program(requantization::values[seed % 4]);
    const IntegerProgram first = channels_first(program);
    const Shape shape = program[program.at("x")].value.type.shape;
    std::vector<Tensor> expected = answers(program, shape, seed, false);
    for (size_t k = 0; k < expected.size(); ++k) {
      if (has_channel_axis(program, program.outputs()[k])) expected[k] = moved(expected[k]);
    }
    CHECK(answers(first, shape, seed, true) == expected);
    CHECK(answers(first, shape, seed, true, true) == expected);
    // Labels of outputs are those of the moved values.
    for (size_t k = 0; k < expected.size(); ++k) {
      CHECK(first[first.outputs()[k]].label == program[program.outputs()[k]].label);
      const bool moves = program[program.outputs()[k]].value.type.shape.rank() >= 3 &&
                         has_channel_axis(program, program.outputs()[k]);
      CHECK(has_channels_first(first, first.outputs()[k]) == moves);
      CHECK(!has_channels_first(program, program.outputs()[k]));
    }
    CHECK(program_from_json(to_json(first)) == first);
    // The same inputs are not moved again.
    if (first[first.at("x")].value.type.shape != shape) {
      CHECK(test::error_text<GraphError>([&] {
              (void)channels_first(first);
            }).ends_with("its channels are before the positions already"));
    }
  }
}

TEST_CASE("channels first: maps without channels stay, and so do their axes") {
  Network net;
  const Value x = net.input("x", {4, 5, 3});
  const Value scores = conv2d(x, 6, {1, 1});
  const auto has_channels = [](const Value& answer) {
    return has_channel_axis(answer.graph(), answer.id());
  };
  CHECK(has_channels(x));
  CHECK(has_channels(relu(scores)));
  CHECK(has_channels(node(Slice{.axis = 3, .begin = 1, .end = 3}, {scores})));
  CHECK(has_channels(node(Reshape{.shape = {-1, 20, 6}}, {scores})));
  CHECK(has_channels(node(Max{.axes = {1}}, {scores})));
  CHECK(has_channels(node(GlobalAvgPool{.keep_dims = true}, {scores})));
  CHECK(!has_channels(node(ArgMax{.axis = -1}, {scores})));
  CHECK(!has_channels(relu(node(Mean{.axes = {3}}, {scores}))));
  CHECK(!has_channels(node(Reshape{.shape = {-1, 4, 5}}, {conv2d(x, 1, {1, 1})})));
  CHECK(!has_channels(node(Transpose{.permutation = {0, 3, 1, 2}}, {scores})));
  // The channels of a map with more positions, as those of a PixelShuffle.
  const Value split = node(Reshape{.shape = {-1, 4, 5, 2, 3}}, {scores});
  const Value turned = node(Transpose{.permutation = {0, 1, 3, 2, 4}}, {split});
  CHECK(has_channels(node(Reshape{.shape = {-1, 8, 5, 3}}, {turned})));
}

TEST_CASE("channels first: codes are moved rather than floats, and channels with scales stay") {
  test::ProgramBuilder a;
  const ProgramNodeId codes = a.codes({2, 3, 4}, test::whole_grid(DType::U8, 0.25, 7));
  const IntegerProgram floats =
      channels_first(a.of({a.add(integer::Dequantize{}, {codes}, "y")}));
  std::string moves;
  for (const IntegerNode& node : floats.nodes()) {
    if (!std::holds_alternative<integer::Transpose>(node.op)) continue;
    moves += std::string(to_string_view(node.value.type.dtype)) + " ";
  }
  CHECK(moves == "u8 f32 ");
  test::ProgramBuilder b;
  const ProgramNodeId q = b.codes({2, 3, 4}, test::whole_grid(DType::U8, 0.25, 7));
  const ProgramNodeId fc =
      b.linear(q, {{5, -3, 2, 1, 7, 0, -9, 4}, {0.5f, 2.0f}, {100, -20}}, "fc");
  const IntegerProgram sums = b.of({fc});
  CHECK(test::error_text<GraphError>([&] { (void)channels_first(sums); }) ==
        "Linear %2 'fc' (%1 'q' u8[2, 3, 4]): its accumulators have 2 scales, one for each "
        "channel, which must stay the last axis: output floats instead");
}

TEST_CASE("integer axes: accumulators with a scale per channel keep their last axis") {
  test::ProgramBuilder b;
  const ProgramNodeId q = b.codes({2, 3, 4}, test::whole_grid(DType::U8, 0.25, 7));
  const ProgramNodeId fc =
      b.linear(q, {{5, -3, 2, 1, 7, 0, -9, 4}, {0.5f, 2.0f}, {100, -20}}, "fc");
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{6, 2}, std::vector<int64_t>{2, 3, 1, 2}}) {
    const ProgramNodeId y = b.add(integer::Reshape{{.shape = shape}}, {fc});
    CHECK(b.program[y].value.scales == b.program[fc].value.scales);
  }
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 2, 3}, std::vector<int64_t>{2, 6}, std::vector<int64_t>{12}}) {
    CAPTURE(shape);
    CHECK(test::error_text<GraphError>([&] {
            b.add(integer::Reshape{{.shape = shape}}, {fc});
          }).find("the last axis must be preserved, got [") != std::string::npos);
  }
}
