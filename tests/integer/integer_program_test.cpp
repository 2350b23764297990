#include "qtape/integer/program/integer_program.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/integer/program/integer_outputs.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_programs.h"

using namespace qtape;
using test::error_text;

namespace {

const CodeGrid s8 = test::whole_grid(DType::S8, 0.5);
const CodeGrid u8 = test::whole_grid(DType::U8, 0.25, 7);

/// A program with an input `x` f32[2, 3], its codes `q`, accumulators `fc` [2, 2] and floats
/// `y`.
struct Fixture {
  IntegerProgram program = test::small_program();
  ProgramNodeId x = program.at("x"), q = program.at("q"), fc = program.at("fc"),
                y = program.at("y");

  std::string refusal(IntegerOp op, const std::vector<ProgramNodeId>& operands,
                      std::string label = "") {
    const IntegerProgram before = program;
    const std::string text =
        error_text<GraphError>([&] { program.add(std::move(op), operands, label); });
    CHECK(program == before);
    return text;
  }
  integer::Linear linear() const { return std::get<integer::Linear>(program[fc].op); }
};

}  // namespace

TEST_CASE("integer program: operands that do not fit are refused, and change nothing") {
  Fixture f;
  const auto refused = [&](const IntegerOp& op, const std::vector<ProgramNodeId>& operands,
                           const std::string& text, const std::string& label = "") {
    CHECK(f.refusal(op, operands, label) == text);
  };
  refused(integer::Quantize{s8}, {}, "Quantize %4: expected 1 operands, got 0");
  refused(integer::Quantize{s8}, {f.q},
          "Quantize %4 (%1 'q' u8[2, 3]): x must be f32, got u8[2, 3]");
  refused(integer::Quantize{s8}, {ProgramNodeId{9}},
          "Quantize %4 (%9): node %9 does not exist; the program has 4 nodes");
  refused(integer::Requantize{s8}, {f.x},
          "Requantize %4 (%0 'x' f32[2, 3]): x must be codes or accumulators, got f32[2, 3]");
  refused(integer::Add{s8}, {f.q}, "Add %4 (%1 'q' u8[2, 3]): expected 2 operands, got 1");
  refused(integer::Add{s8}, {f.q, f.fc},
          "Add %4 (%1 'q' u8[2, 3], %2 'fc' s32[2, 2]): b must be codes, got s32[2, 2]");
  refused(integer::Max{}, {f.fc}, "Max %4 (%2 'fc' s32[2, 2]): x must be codes, got s32[2, 2]");
  refused(integer::Dequantize{}, {f.x},
          "Dequantize %4 (%0 'x' f32[2, 3]): x must be codes or accumulators, got f32[2, 3]");
  refused(integer::Dequantize{.low = 1, .high = 0}, {f.q},
          "Dequantize %4 (%1 'q' u8[2, 3]): low must be at most high, got 1 and 0");
  refused(integer::Dequantize{.high = 1e39}, {f.q},
          "Dequantize %4 (%1 'q' u8[2, 3]): low and high must be numbers of f32, got 1e+39");
  refused(
      integer::Pad{.begin = {0, 1}, .end = {0}}, {f.q},
      "Pad %4 (%1 'q' u8[2, 3]): end must have 2 numbers, one for each axis of x [2, 3], got [0]");
  refused(integer::Pad{.begin = {0, 1}, .end = {0, 0}, .code = 256}, {f.q},
          "Pad %4 (%1 'q' u8[2, 3]): code must be within 0..255, got 256");
  refused(integer::Pad{.begin = {0, 1}, .end = {0, 0}}, {f.fc},
          "Pad %4 (%2 'fc' s32[2, 2]): x must be codes, got s32[2, 2]");
  refused(integer::Input{.shape = {2}}, {}, "Input %4: needs a label, by which it is found");
  refused(integer::Input{.shape = {5, 2}}, {},
          "Input %4 'z': batch extent is 5, but other inputs have 2", "z");
  refused(integer::Quantize{s8}, {f.x},
          "Quantize %4 'fc' (%0 'x' f32[2, 3]): label 'fc' is already used by %2", "fc");
  refused(f.linear(), {f.fc}, "Linear %4 (%2 'fc' s32[2, 2]): x must be codes, got s32[2, 2]");
  CHECK(f.refusal(integer::Sum{.axes = {2}}, {f.q}).starts_with("Sum %4 (%1 'q' u8[2, 3]): "));
  CHECK(
      f.refusal(integer::Reshape{{.shape = {5}}}, {f.q}).starts_with("Reshape %4 (%1 'q' u8"));
  CHECK(f.refusal(integer::Slice{{.axis = 1, .begin = 4}}, {f.q})
            .starts_with("Slice %4 (%1 'q' u8[2, 3]): "));
  const ProgramNodeId lines = f.program.add(integer::Reshape{{.shape = {2, 3, 1}}}, {f.q});
  CHECK(
      f.refusal(integer::AvgPool{{.kernel = {1 << 24},
                                  .padding = Padding::Explicit,
                                  .pads_begin = {(1 << 24) - 3}}},
                {lines}) ==
      "AvgPool %5 (%4 u8[2, 3, 1]): accumulators may have at most 2^23 terms, windows of [16777216] need more");
  CHECK(
      f.refusal(integer::AvgPool{{.kernel = {4}}}, {lines}) ==
      "AvgPool %5 (%4 u8[2, 3, 1]): kernel of 4 with dilation 1 spans 4 along l, padded x has 3");
  const ProgramNodeId part = f.program.add(integer::Slice{{.axis = 1, .end = 2}}, {f.q});
  for (const IntegerOp& op : {IntegerOp(integer::Mul{s8}), IntegerOp(integer::Maximum{})}) {
    CHECK(f.refusal(op, {f.q, part}).ends_with("shapes do not broadcast: [2, 3] and [2, 2]"));
  }
  const Tensor codes = Tensor::of<int8_t>({2}, std::vector<int8_t>{5, -9});
  CHECK(f.refusal(integer::Constant{s8, codes}, {f.q}).ends_with("expected 0 operands, got 1"));
  refused(integer::Constant{test::whole_grid(DType::U8, 0.5), codes}, {},
          "Constant %6: the codes must be u8, got s8[2]");
  refused(integer::Constant{{DType::S8, 0.5, 0, -8, 7}, codes}, {},
          "Constant %6: code 1 must be within -8..7, got -9");
}

TEST_CASE("integer program: grids that do not fit are refused") {
  Fixture f;
  const auto refused = [&](const CodeGrid& grid) {
    return f.refusal(integer::Quantize{grid}, {f.x}).substr(32);
  };
  CHECK(refused({DType::U8, 0, 7, 0, 255}) == "scale must be a positive normal f32, got 0");
  CHECK(refused({DType::U8, 0.1, 7, 0, 255}) ==
        "scale must be an f32, got 0.1; the nearest is 0.10000000149011612");
  CHECK(refused({DType::U8, 1e-40, 7, 0, 255})
            .starts_with("scale must be a positive normal f32, got "));
  CHECK(refused({DType::U8, 0.25, 7, 0, 256}) ==
        "codes must be within 0..255 for u8, got 0..256");
  CHECK(refused({DType::U8, 0.25, 7, 8, 7}) == "codes must be within 0..255 for u8, got 8..7");
  CHECK(refused({DType::U8, 0.25, -1, 0, 255}) == "zero point must be within 0..255, got -1");
  CHECK(refused({DType::S32, 0.25, 7, 0, 255}) == "codes are s8, u8, s16 or u16, got s32");
  const ProgramNodeId other = f.program.add(integer::Quantize{s8}, {f.x});
  CHECK(
      f.refusal(integer::Concat{{.axis = 1, .count = 2}}, {f.q, other}) ==
      "Concat %5 (%1 'q' u8[2, 3], %4 s8[2, 3]): operands must be codes of one grid, got scale 0.25 zero point 7 and scale 0.5 zero point 0");
  CHECK(
      f.refusal(integer::Minimum{}, {f.q, other}) ==
      "Minimum %5 (%1 'q' u8[2, 3], %4 s8[2, 3]): operands must be codes of one grid, got scale 0.25 zero point 7 and scale 0.5 zero point 0");
  const ProgramNodeId alike =
      f.program.add(integer::Quantize{test::whole_grid(DType::S8, 0.25, 7)}, {f.x});
  CHECK(f.refusal(integer::Maximum{}, {f.q, alike}).ends_with("dtypes differ: u8 and s8"));
  const ProgramNodeId a =
      f.program.add(integer::Quantize{test::whole_grid(DType::S8, 0x1p-126)}, {f.x});
  const ProgramNodeId b =
      f.program.add(integer::Quantize{test::whole_grid(DType::S8, 0x1p100)}, {f.x});
  CHECK(f.refusal(integer::Add{s8}, {a, b}).ends_with("allow no Add on a grid of scale 0.5"));
}

TEST_CASE("integer program: a Linear that does not fit its weights is refused") {
  Fixture f;
  const auto refusal = [&](auto change) {
    integer::Linear linear = f.linear();
    change(linear.weights);
    const std::string text = f.refusal(linear, {f.q});
    const std::string prefix = "Linear %4 (%1 'q' u8[2, 3]): ";
    CHECK(text.starts_with(prefix));
    return text.substr(prefix.size());
  };
  using W = QuantizedWeights;
  const auto refused = [&](const std::string& text, void (*change)(W&)) {
    CHECK(refusal(change) == text);
  };
  refused("weights need a shape [n, k], got [6]", [](W& w) { w.shape = {6}; });
  refused("storage_bits must be 2, 4 or 8, got 3", [](W& w) { w.storage_bits = 3; });
  refused("[2, 3] weights of 4 bits take 3 bytes, got 6", [](W& w) { w.storage_bits = 4; });
  refused("[2, 4] weights of 8 bits take 8 bytes, got 6", [](W& w) { w.shape = {2, 4}; });
  refused("expected 3 scales or one, got 2", [](W& w) { w.shape = {3, 2}; });
  refused("accumulators may have at most 2^23 terms, got 16777216", [](W& w) {
    w.shape = {1, 16777216};
  });
  refused("expected 2 biases or none, got 1",
          [](W& w) { w.bias = Tensor::of<int32_t>({1}, std::array{1}); });
  refused("bias must be s32 of rank 1, got f32[2]", [](W& w) {
    w.bias = Tensor::of<float>({2}, std::array{1.0f, 2.0f});
  });
  refused("scales must be positive normal f32, got 0", [](W& w) {
    w.scales = Tensor::of<float>({2}, std::array{1.0f, 0.0f});
  });
  refused("codes hold 5 bytes, u8[6] needs 6", [](W& w) { w.codes.data.pop_back(); });
  refused("the certificate does not hold: pair_bound is 1, the weights prove 2295",
          [](W& w) { w.certificate.pair_bound = 1; });
  refused(
      "the certificate does not hold: accumulator_bound is missing or 0, the weights prove 2301; part_bound is 7, the weights prove 2295",
      [](W& w) {
        w.certificate = {0, 7, w.certificate.pair_bound};
      });
  refused(
      "the certificate is missing or 0; the weights prove accumulators 2301 of 2147483647 (x9.33e+05), parts 2295 of 16777215 (x7.31e+03), pairs 2295 of 32767 (x14.3)",
      [](W& w) { w.certificate = {}; });
  CHECK(refusal([](W& w) {
          w.codes.data[5] = std::byte{0};
        }).starts_with("the certificate does not hold: "));
  const ProgramNodeId narrow = f.program.add(integer::Slice{{.axis = 1, .end = 2}}, {f.q});
  CHECK(f.refusal(f.linear(), {narrow}) ==
        "Linear %5 (%4 u8[2, 2]): x must be [..., 3], got [2, 2]");
}

TEST_CASE("integer program: values tell types, scales and ranges") {
  Fixture f;
  const IntegerValue& q = f.program[f.q].value;
  CHECK(q == IntegerValue{{DType::U8, {2, 3}}, {0.25}, 7, 0, 255});
  const IntegerValue& fc = f.program[f.fc].value;
  CHECK(fc.type == TensorType{DType::S32, {2, 2}});
  CHECK(fc.scales == std::vector<double>{0.25 * 0.5, 0.25 * 2});
  const auto value = [&](IntegerOp op, ProgramNodeId x) {
    return f.program[f.program.add(std::move(op), {x})].value;
  };
  CHECK(value(integer::Max{.axes = {1}}, f.q) ==
        IntegerValue{{DType::U8, {2}}, {0.25}, 7, 0, 255});
  CHECK(value(integer::Sum{.axes = {1}}, f.q) ==
        IntegerValue{{DType::S32, {2}}, {0.25}, 0, int64_t{3} * -7, int64_t{3} * 248});
  IntegerValue mean{{DType::S32, {2, 1}}, {0.25 / 3}, 0, int64_t{3} * -7, int64_t{3} * 248};
  mean.terms = 3;
  CHECK(value(integer::Sum{.axes = {1}, .keep_dims = true, .mean = true}, f.q) == mean);
  CHECK(value(integer::Reshape{{.shape = {-1}}}, f.q).type == TensorType{DType::U8, {6}});
  CHECK(value(integer::Slice{{.axis = 1, .begin = -1}}, f.q).type ==
        TensorType{DType::U8, {2, 1}});
  CHECK(value(integer::Requantize{s8}, f.fc) ==
        IntegerValue{{DType::S8, {2, 2}}, {0.5}, 0, -128, 127});
  CHECK(f.program[f.y].value == IntegerValue{{DType::F32, {2, 2}}});
}

TEST_CASE("integer program: names, outputs and another batch extent") {
  Fixture f;
  const ProgramNodeId codes = f.program.add(integer::Requantize{s8}, {f.fc});
  CHECK(f.program.name(codes) == "%4");
  CHECK(f.program.name(f.fc) == "fc");
  CHECK(f.program.describe(f.fc) == "Linear %2 'fc' (%1 'q' u8[2, 3])");
  CHECK(!f.program.find("z"));
  CHECK(error_text<GraphError>([&] { (void)f.program.at("z"); }) ==
        "no node is called 'z'; the nearest are 'q', 'x'");
  CHECK(error_text<GraphError>([&] { f.program.set_outputs({ProgramNodeId{7}}); }) ==
        "node %7 does not exist; the program has 5 nodes");
  CHECK(f.program.batch() == 2);
  const IntegerProgram larger = f.program.with_batch(5);
  CHECK(larger.batch() == 5);
  CHECK(larger[f.y].value.type == TensorType{DType::F32, {5, 2}});
  CHECK(std::ranges::equal(larger.outputs(), f.program.outputs()));
  CHECK(larger.with_batch(2) == f.program);
  CHECK(error_text<GraphError>([&] { (void)f.program.with_batch(0); }) ==
        "batch extent must be at least 1, got 0");
}

TEST_CASE("integer program: all nodes as text") {
  CHECK(
      to_string(test::small_program()) ==
      "requantization SingleRounding\n"
      "%0 'x' f32[2, 3] = Input\n"
      "%1 'q' u8[2, 3] = Quantize (%0 'x') scale 0.25, zero point 7, 0..255\n"
      "%2 'fc' s32[2, 2] = Linear [2, 3] of 8 bits (%1 'q') scale 0.125 to 0.5, -2301..1857\n"
      "   proven: accumulators 2301 of 2147483647 (x9.33e+05), parts 2295 of 16777215 (x7.31e+03), pairs 2295 of 32767 (x14.3)\n"
      "%3 'y' f32[2, 2] = Dequantize {low: 0} (%2 'fc')\n");
}

TEST_CASE("integer program: outputs in integers leave out their last Dequantize") {
  test::ProgramBuilder b;
  const ProgramNodeId q = b.codes({2, 3}, s8);
  const ProgramNodeId y = b.add(integer::Dequantize{}, {q}, "y");
  const IntegerProgram program = with_integer_outputs(b.of({y, q}));
  CHECK(program.size() == 2);
  CHECK(std::ranges::equal(program.outputs(), std::vector{program.at("q"), program.at("q")}));
  CHECK(with_integer_outputs(program) == program);
}

TEST_CASE("integer program: floats that are more than their integers are refused") {
  CHECK(error_text<GraphError>([] { (void)with_integer_outputs(test::small_program()); }) ==
        "output 'y': its floats are limited, the integers are not");
  test::ProgramBuilder b;
  const ProgramNodeId q = b.codes({2, 3}, s8);
  const ProgramNodeId y = b.add(integer::Dequantize{}, {q}, "y");
  const ProgramNodeId again = b.add(integer::Quantize{u8}, {y}, "again");
  CHECK(error_text<GraphError>([&] {
          (void)with_integer_outputs(b.of({y, again}));
        }) == "output 'y': Quantize 'again' reads its floats");
  test::ProgramBuilder floats;
  const ProgramNodeId x = floats.add(integer::Input{.shape = {2}}, {}, "x");
  CHECK(error_text<GraphError>([&] { (void)with_integer_outputs(floats.of({x})); }) ==
        "output 'x': its floats are of Input, expected Dequantize");
}
