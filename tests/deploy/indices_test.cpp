// Networks that end in the index of the largest element, at all levels.
#include <doctest/doctest.h>

#include "qtape/integer/program/session.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/small_nets.h"
#include "qtape/tests/support/verified_models.h"

using namespace qtape;
using test::check_all;
using test::error_text;
using test::net;

namespace {

/// The index as floats, as answers are.
Value index_of(const Value& x, const ArgMax& op = {}) {
  return node(Cast{}, {node(op, {x}, "index")});
}

/// Returns the number of ops of type T.
template <class T>
int64_t ops_of(const IntegerProgram& program) {
  return std::ranges::count_if(program.nodes(), [](const IntegerNode& each) {
    return std::holds_alternative<T>(each.op);
  });
}

}  // namespace

TEST_CASE("indices: of the largest accumulator, without a quantizer before it") {
  const Model model = net([](const Value& h) { return index_of(linear(flatten(h), 7)); });
  check_all(model);
  const IntegerProgram program = model.integers(Requantization::SingleRounding);
  CHECK(ops_of<integer::ArgMax>(program) == 1);
  CHECK(ops_of<integer::Quantize>(program) == 1);
  CHECK(ops_of<integer::Requantize>(program) == 1);
  const IntegerProgram integers =
      convert(model.graph(), model.parameters(), {.integer_outputs = true});
  const IntegerValue& y = integers[integers.outputs()[0]].value;
  CHECK(y.type == TensorType{DType::S32, {1}});
  CHECK(y.scales == std::vector{1.0});
  CHECK(y.low == 0);
  CHECK(y.high == 6);
}

TEST_CASE("indices: classes of the positions of an image, along any axis") {
  for (const int axis : {-1, 1, 2}) {
    for (const bool keep : {false, true}) {
      CAPTURE(axis);
      CAPTURE(keep);
      const ArgMax op{.axis = axis, .keep_dims = keep};
      check_all(net([&](const Value& h) { return index_of(conv2d(h, 5, {1, 1}), op); }));
      check_all(net([&](const Value& h) { return index_of(max_pool(h, {2, 2}), op); }));
    }
  }
}

TEST_CASE("indices: values without a grid of their own get a quantizer") {
  check_all(net([](const Value& h) { return index_of(relu(linear(flatten(h), 7))); }));
  check_all(net([](const Value& h) { return index_of(sigmoid(linear(flatten(h), 7))); }));
  check_all(net([](const Value& h) { return index_of(flatten(conv2d(h, 5, {1, 1}))); }));
  check_all(net([](const Value& h) {
    const Value rows = flatten(h);
    return index_of(linear(rows, 7) + linear(rows, 7));
  }));
}

TEST_CASE("indices: beside the values of which they are, and beside other outputs") {
  Network network;
  const Value x = network.input("x", {6, 6, 3});
  const Value h = relu(conv2d(x, 4, {3, 3}, {.label = "conv"}));
  const Value y = linear(flatten(h), 5, {.label = "fc"});
  const std::vector<Value> answers = {index_of(y), y, h};
  check_all(quantized(Model(answers, 2), {}, test::noise(), 64, 1));
}

TEST_CASE("indices: the first of equal elements, of codes and of values") {
  test::ProgramBuilder b;
  const ProgramNodeId q = b.codes({2, 3}, test::whole_grid(DType::U8, 0.5, 10));
  const ProgramNodeId of_codes = b.add(integer::ArgMax{}, {q}, "codes");
  // Values 2, 2 and 1 of the first row of codes.
  const ProgramNodeId sums =
      b.linear(q, {{1, 0, 0, 2, 0, 0, 0, 0, 1}, {1.0f, 0.5f, 1.0f}}, "sums");
  const ProgramNodeId of_sums = b.add(integer::ArgMax{}, {sums}, "values");
  const IntegerProgram program = b.of({of_codes, of_sums});
  for (const bool reference : {false, true}) {
    IntegerSession session(program, {.reference = reference, .threads = 1});
    std::ranges::copy(std::array{1.0f, 1.0f, 0.5f, -3.0f, -1.0f, -1.0f},
                      session.input("x").begin());
    session.run();
    CHECK(test::copied(session.value<int32_t>("codes")) == std::vector<int32_t>{0, 1});
    CHECK(test::copied(session.value<int32_t>("values")) == std::vector<int32_t>{0, 2});
  }
}

TEST_CASE("indices: ArgMax names the operands that it cannot take") {
  test::ProgramBuilder b;
  const ProgramNodeId x = b.add(integer::Input{.shape = {2, 0}}, {}, "x");
  const ProgramNodeId q = b.add(integer::Quantize{}, {x}, "q");
  const auto text = [&](ProgramNodeId of, int axis) {
    return error_text<GraphError>([&] { b.add(integer::ArgMax{{.axis = axis}}, {of}); });
  };
  CHECK(text(x, 0).ends_with("x must be codes or accumulators, got f32[2, 0]"));
  CHECK(text(q, 1).ends_with("axis 1 must have 1 to 2^31 - 1 elements, x is s8[2, 0]"));
  CHECK(text(q, 2).ends_with("axis 2 is out of range for rank 2"));
}

TEST_CASE("indices: they have no grid, and other integers are not cast") {
  const auto refusal = [](const Value& answer) {
    return error_text<GraphError>([&] {
      const Model model = quantized(Model(answer, 2), {}, test::noise(), 64, 1);
      (void)model.integers(Requantization::FloatMultiply);
    });
  };
  Network network;
  const Value h = conv2d(network.input("x", {6, 6, 3}), 4, {3, 3}, {.label = "conv"});
  CHECK(refusal(linear(index_of(flatten(h), {.keep_dims = true}), 2)).find(
            "is an index, which has no grid: use it as an output, or look up an Embedding") !=
        std::string::npos);
  CHECK(refusal(linear(node(Cast{}, {flatten(h)}), 2))
            .find("has integers only as the f32 of an ArgMax: feed the model f32, or use an "
                  "output before it") != std::string::npos);
}
