#include "qtape/deploy/compare.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/tflite/tflite_programs.h"

using namespace qtape;
using test::error_text;
using test::ProgramBuilder;
using test::whole_grid;

namespace {

/// The numbers of a small network: x f32[4, 2], codes `q`, sums `fc.sums` of three outputs,
/// their codes `fc`, and the floats `y`.
struct SmallNet {
  Requantization requantization = Requantization::DoubleRounding;
  CodeGrid q = whole_grid(DType::S8, 0.5, 1);
  CodeGrid fc = whole_grid(DType::S8, 0.75);
  test::Weights weights = {{3, -7, 11, 5, -2, 9}, {0.25f}, {10, -20, 30}};
  bool f32_scales = false;
  std::string fc_label = "fc";
  bool flat = false;  ///< with a Reshape, which moves nothing, behind the codes

  IntegerProgram program() const {
    ProgramBuilder b(requantization);
    ProgramNodeId x = b.codes({4, 2}, q);
    if (flat) x = b.add(integer::Reshape{qtape::Reshape{.shape = {-1, 2}}}, {x}, "flat");
    integer::Linear linear{pack_weights(weights.codes, {3, 2}, weights.bits, weights.scales,
                                        weights.bias, b.program[x].value)};
    linear.f32_scales = f32_scales;
    const ProgramNodeId sums = b.add(linear, {x}, fc_label + ".sums");
    const ProgramNodeId codes = b.add(integer::Requantize{fc}, {sums}, fc_label);
    return b.of({b.add(integer::Dequantize{}, {codes}, "y")});
  }
};

/// Runs x = -60, -59.5, ... in samples of two.
ProgramComparison compared(const IntegerProgram& a, const IntegerProgram& b) {
  ProgramComparison comparison(a, b, {.batch = 4, .threads = 1});
  float next = -60;
  for (int run = 0; run < 30; ++run) {
    for (float& x : comparison.session().input("x")) x = next += 0.5f;
    comparison.run(4);
  }
  return comparison;
}

const NodeComparison& node_at(const ProgramComparison& comparison, std::string_view label) {
  const ProgramNodeId id = comparison.program_a().at(label);
  for (const NodeComparison& node : comparison.nodes()) {
    if (node.a == id) return node;
  }
  throw std::runtime_error("no node " + std::string(label));
}

/// Returns `label: reason` of the first difference.
std::string first_of(const ProgramComparison& comparison) {
  const NodeComparison* first = comparison.first_difference();
  if (first == nullptr) return "none";
  return comparison.program_a().name(first->a) + ": " + comparison.reason(*first);
}

std::string first_of(const SmallNet& a, const SmallNet& b) {
  return first_of(compared(a.program(), b.program()));
}

}  // namespace

TEST_CASE("compare: a program equals itself") {
  for (const IntegerProgram& program :
       {SmallNet().program(), test::tflite_programs::all_layers()}) {
    ProgramComparison comparison(program, program, {.threads = 1});
    comparison.run(1);
    CHECK(comparison.differences() == 0);
    CHECK(comparison.first_difference() == nullptr);
    CHECK(comparison.only_in_a().empty());
    CHECK(comparison.only_in_b().empty());
    CHECK(std::ssize(comparison.nodes()) == program.size() - 1);
    for (const NodeComparison& node : comparison.nodes()) {
      CHECK(node.compared > 0);
      CHECK(node.numbers.empty());
      CHECK(node.inputs_agree);
    }
  }
}

TEST_CASE("compare: counts, the largest and the first difference are those of plain loops") {
  SmallNet other;
  other.weights.bias[1] = -5;
  const IntegerProgram a = SmallNet().program();
  const IntegerProgram b = other.program();
  const ProgramComparison comparison = compared(a, b);
  const NodeComparison& sums = node_at(comparison, "fc.sums");
  CHECK(sums.compared == 30 * 4 * 3);
  CHECK(sums.differ == 30 * 4);
  CHECK(sums.largest == 15);
  REQUIRE(sums.first);
  CHECK(sums.first->sample == 0);
  CHECK(sums.first->index == 1);
  CHECK(sums.first->b - sums.first->a == 15);
  // Codes of the second output, M = 0.125 / 0.75, saturate at one end.
  int64_t differ = 0;
  int64_t largest = 0;
  std::optional<std::pair<int64_t, int64_t>> first;
  IntegerSession session_a(a.with_batch(1), {.reference = true});
  IntegerSession session_b(b.with_batch(1), {.reference = true});
  float next = -60;
  for (int64_t sample = 0; sample < 120; ++sample) {
    for (size_t i = 0; i < 2; ++i) {
      session_a.input("x")[i] = session_b.input("x")[i] = next += 0.5f;
    }
    session_a.run();
    session_b.run();
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t one = session_a.integer(a.at("fc"), i);
      const int64_t two = session_b.integer(b.at("fc"), i);
      if (one == two) continue;
      if (differ++ == 0) first = {sample, i};
      largest = std::max(largest, std::abs(one - two));
    }
  }
  REQUIRE(differ > 0);
  const NodeComparison& codes = node_at(comparison, "fc");
  CHECK(codes.differ == differ);
  CHECK(codes.largest == static_cast<double>(largest));
  CHECK(codes.first->sample == first->first);
  CHECK(codes.first->index == first->second);
  CHECK(!codes.inputs_agree);
  CHECK(comparison.differences() ==
        sums.differ + codes.differ + node_at(comparison, "y").differ);
  CHECK(first_of(comparison) ==
        "fc.sums: bias -20 against -5 at [1], the first of 1 of 3 that differ");
}

TEST_CASE("compare: fewer rows than a batch") {
  const SmallNet other{.q = whole_grid(DType::S8, 0.5, 3)};
  ProgramComparison comparison(SmallNet().program(), other.program(), {.batch = 4});
  comparison.run(3);
  comparison.run(1);
  CHECK(node_at(comparison, "q").compared == 8);
  CHECK(node_at(comparison, "q").differ == 8);
  CHECK(error_text<ArgumentError>([&] { comparison.run(5); }) == "rows must be in 0..4, got 5");
}

TEST_CASE("compare: rounding, grids of codes and weights") {
  const SmallNet once{.requantization = Requantization::SingleRounding};
  CHECK(first_of({}, once) == "fc: rounding DoubleRounding against SingleRounding");
  CHECK(first_of(once, {.requantization = Requantization::FloatMultiply}) ==
        "fc: rounding SingleRounding against FloatMultiply");
  CHECK(first_of({}, {.q = whole_grid(DType::S8, 0.5, 2)}) == "q: zero point 1 against 2");
  CHECK(first_of({}, {.q = whole_grid(DType::S8, 0.25, 1)}) == "q: scale 0.5 against 0.25");
  CHECK(first_of({}, {.fc = {DType::S8, 0.75, 0, 0, 31}}) ==
        "fc: limits -128..127 against 0..31");
  CHECK(first_of({}, {.q = {DType::U8, 0.5, 129, 1, 255}}) ==
        "q: type s8 against u8; zero point 1 against 129; limits -128..127 against 1..255");
  CHECK(first_of({}, {.weights = {{3, -7, 11, 6, -2, 8}, {0.25f}, {10, -20, 30}}}) ==
        "fc.sums: weights 5 against 6 at [1, 1], the first of 2 of 6 that differ");
}

TEST_CASE("compare: products of scales in f32 and in double") {
  SmallNet a;
  a.q.scale = double{0.7f};
  a.weights.scales = {0.3f};
  a.fc.scale = double{0.011f};
  SmallNet b = a;
  b.f32_scales = true;
  const ProgramComparison comparison = compared(a.program(), b.program());
  const NodeComparison& sums = node_at(comparison, "fc.sums");
  CHECK(sums.agrees());
  REQUIRE(sums.numbers.size() == 1);
  CHECK(to_string(sums.numbers[0]) == "f32_scales false against true");
  const NodeComparison& codes = node_at(comparison, "fc");
  REQUIRE(codes.numbers.size() == 1);
  const auto mantissa = [](double ratio) {
    int exponent = 0;
    return std::llround(std::ldexp(std::frexp(ratio, &exponent), 31));
  };
  const double product = double{0.7f} * double{0.3f};
  const auto rounded = static_cast<double>(static_cast<float>(product));
  CHECK(codes.numbers[0] ==
        NumberDifference{"multiplier",
                         fmt::format("{} >> 26", mantissa(product / double{0.011f})),
                         fmt::format("{} >> 26", mantissa(rounded / double{0.011f})), "",
                         "s_x s_w / s_y with s_x s_w in double against f32"});
}

TEST_CASE("compare: multipliers") {
  const CodeGrid half = whole_grid(DType::S8, 0.5);
  CHECK(first_of({}, {.fc = half}) ==
        "fc: multiplier 1431655765 >> 33 against 1073741824 >> 32: s_y 0.75 against 0.5; scale "
        "0.75 against 0.5");
  SmallNet channels;
  channels.weights.scales = {0.25f, 0.5f, 0.25f};
  CHECK(first_of({}, channels) ==
        "fc: multiplier 1431655765 >> 33 against 1431655765 >> 32 in channel 1 of 3: s_w 0.25 "
        "against 0.5 at [1], the first of 1 of 3 that differ");
  const auto of_wider = [&](Requantization by) {
    return first_of({.requantization = by}, {.requantization = by, .fc = half});
  };
  CHECK(of_wider(Requantization::FloatMultiply) ==
        "fc: multiplier 0.16666667 against 0.25: s_y 0.75 against 0.5; scale 0.75 against 0.5");
  CHECK(of_wider(Requantization::OnnxQdq) ==
        "fc: multiplier 0.125 / 0.75 against 0.125 / 0.5: s_y 0.75 against 0.5; scale 0.75 "
        "against 0.5");
}

TEST_CASE("compare: codes of the same values are equal, whatever their zero points") {
  const SmallNet b{.q = whole_grid(DType::U8, 0.5, 129), .fc = {DType::S8, 0.75, 0, 0, 127}};
  const ProgramComparison comparison = compared(SmallNet().program(), b.program());
  const NodeComparison& codes = node_at(comparison, "q");
  CHECK(codes.shift == 128);
  CHECK(codes.agrees());
  CHECK(codes.numbers.empty());
  CHECK(node_at(comparison, "fc.sums").agrees());
  CHECK(node_at(comparison, "fc").shift == 0);
  CHECK(first_of(comparison) == "fc: limits -128..127 against 0..127");
  const NodeComparison reversed = node_at(compared(b.program(), SmallNet().program()), "q");
  CHECK(reversed.shift == -128);
  CHECK(reversed.agrees());
}

TEST_CASE("compare: ops of one label, and their operands") {
  const auto compare = [](const IntegerOp& a, const IntegerOp& b, bool swapped) {
    const auto with = [](const IntegerOp& op, bool swap) {
      ProgramBuilder builder;
      const ProgramNodeId q = builder.codes({1, 2}, whole_grid(DType::S8, 0.5));
      const ProgramNodeId z = builder.add(integer::Input{.shape = {1, 2}}, {}, "z");
      const ProgramNodeId r =
          builder.add(integer::Quantize{whole_grid(DType::S8, 0.5)}, {z}, "r");
      return builder.of({builder.add(op, {swap ? r : q, swap ? q : r}, "pair")});
    };
    ProgramComparison comparison(with(a, false), with(b, swapped), {});
    for (float& x : comparison.session().input("x")) x = 4;
    for (float& x : comparison.session().input("z")) x = 8;
    comparison.run(1);
    return comparison;
  };
  const integer::Sub sub{whole_grid(DType::S8, 1)};
  const ProgramComparison ops = compare(integer::Add{whole_grid(DType::S8, 1)}, sub, false);
  CHECK(first_of(ops) == "pair: op Add against Sub");
  CHECK(node_at(ops, "pair").largest == 16);
  CHECK(first_of(compare(sub, sub, true)) ==
        "pair: it is computed from q and r against r and q");
}

TEST_CASE("compare: nodes without a counterpart, and nodes without a common label") {
  SmallNet flat{.fc_label = "renamed", .flat = true};
  flat.weights.codes[0] = 4;
  const ProgramComparison comparison = compared(SmallNet().program(), flat.program());
  CHECK(comparison.only_in_a().empty());
  REQUIRE(comparison.only_in_b().size() == 1);
  CHECK(comparison.program_b().name(comparison.only_in_b()[0]) == "flat");
  CHECK(comparison.program_b().name(node_at(comparison, "fc").b) == "renamed");
  CHECK(first_of(comparison) ==
        "fc.sums: weights 3 against 4 at [0, 0], the first of 1 of 6 that differ");
  const ProgramComparison reversed = compared(flat.program(), SmallNet().program());
  CHECK(reversed.only_in_a().size() == 1);
  CHECK(reversed.only_in_b().empty());
  CHECK(first_of(reversed) ==
        "renamed.sums: weights 4 against 3 at [0, 0], the first of 1 of 6 that differ");
}

TEST_CASE("compare: outputs in another order are paired by label, others by position") {
  const auto program = [](bool turned, const char* second) {
    ProgramBuilder b(Requantization::DoubleRounding);
    const ProgramNodeId x = b.codes({4, 2}, whole_grid(DType::S8, 0.5, 1));
    const ProgramNodeId p = b.add(integer::Dequantize{}, {x}, "p");
    const CodeGrid coarse = whole_grid(DType::S8, 8);
    const ProgramNodeId q = b.add(integer::Dequantize{},
                                  {b.add(integer::Requantize{coarse}, {x}, "coarse")}, second);
    return turned ? b.of({q, p}) : b.of({p, q});
  };
  CHECK(first_of(compared(program(false, "r"), program(true, "r"))) == "none");
  CHECK(first_of(compared(program(false, "r"), program(true, "other"))) != "none");
}

TEST_CASE("compare: floats against codes at the end") {
  const IntegerProgram a = SmallNet().program();
  const IntegerProgram codes = test::first_nodes(a, 4);
  IntegerProgram b = codes;
  b.set_outputs({b.at("fc")});
  const ProgramComparison comparison = compared(a, b);
  CHECK(comparison.differences() == 0);
  REQUIRE(comparison.only_in_a().size() == 1);
  CHECK(comparison.program_a().name(comparison.only_in_a()[0]) == "y");
}

TEST_CASE("compare: inputs and outputs that differ are refused") {
  const auto with = [](const Shape& shape, const std::string& label, int outputs) {
    ProgramBuilder b;
    const ProgramNodeId x = b.add(integer::Input{.shape = shape}, {}, label);
    const ProgramNodeId q = b.add(integer::Quantize{whole_grid(DType::S8, 1)}, {x}, "q");
    return b.of(std::vector<ProgramNodeId>(static_cast<size_t>(outputs), q));
  };
  const CompareOptions options{.batch = 2, .name_a = "a.json", .name_b = "b.json"};
  const auto text = [&](const IntegerProgram& a, const IntegerProgram& b) {
    return error_text<ArgumentError>([&] { ProgramComparison(a, b, options); });
  };
  CHECK(text(with({1, 3}, "x", 1), with({1, 4}, "z", 1)) ==
        "inputs differ at a batch of 2: a.json has 'x' f32[2, 3], b.json has 'z' f32[2, 4]");
  CHECK(text(with({1, 3}, "x", 1), with({1, 3}, "z", 2)) ==
        "outputs differ at a batch of 2: a.json has 'q' s8[2, 3], b.json has 'q' s8[2, 3] and "
        "'q' s8[2, 3]");
  CHECK(text(with({1, 3}, "x", 1), with({1, 3}, "z", 1)) == "no error");
}
