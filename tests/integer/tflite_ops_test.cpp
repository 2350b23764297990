// Ops that have the arithmetic of TFLite's kernels: MeanPool and Softmax.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/core/random.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_programs.h"

using namespace qtape;

namespace {

/// Returns the result of `op` for `codes` of `shape`, which the reference and the backend give.
template <class T>
std::vector<int> run(const IntegerOp& op, const Shape& shape, const CodeGrid& grid,
                     const std::vector<int>& codes) {
  test::ProgramBuilder b(Requantization::DoubleRounding);
  const ProgramNodeId y = b.add(op, {b.codes(shape, grid)}, "y");
  const IntegerProgram program = b.of({y});
  std::vector<std::vector<int>> found;
  for (const bool reference : {true, false}) {
    IntegerSession session(program, {.reference = reference, .threads = 2});
    const auto input = session.input("x");
    for (size_t i = 0; i < codes.size(); ++i) {
      input[i] = static_cast<float>((codes[i] - grid.zero_point) * grid.scale);
    }
    session.run();
    const auto values = session.value<T>(y);
    found.emplace_back(values.begin(), values.end());
  }
  CHECK(found[0] == found[1]);
  return found[0];
}

const CodeGrid s8 = test::whole_grid(DType::S8, 0.25, 3);

TEST_CASE("mean pool: means of the codes themselves, halves away from 0, without padding") {
  const integer::MeanPool pairs{{.kernel = {2}}};
  using Codes = std::vector<int>;
  // Sums 5, -5, 0, -255, 3, -1.
  CHECK(run<int8_t>(pairs, {1, 12, 1}, s8, {2, 3, -2, -3, 4, -4, -128, -127, 1, 2, 0, -1}) ==
        Codes{3, -3, 0, -128, 2, -1});
  CHECK(run<uint8_t>(pairs, {1, 4, 1}, test::whole_grid(DType::U8, 0.25, 200),
                     {2, 3, 255, 254}) == Codes{3, 255});
  CHECK(run<int16_t>(pairs, {1, 4, 1}, test::whole_grid(DType::S16, 0x1p-4, -9),
                     {-32768, -32767, 32767, 32766}) == Codes{-32768, 32767});
  // Windows of 4, 6 and 9 elements in two channels, the second of which is the first negated.
  Codes image;
  for (int i = 0; i < 9; ++i) image.insert(image.end(), {10 * i, -10 * i});
  const integer::MeanPool same{{.kernel = {3, 3}, .stride = {1, 1}, .padding = Padding::Same}};
  const Codes means = run<int8_t>(same, {1, 3, 3, 2}, s8, image);
  Codes first, second;
  for (size_t i = 0; i < means.size(); i += 2) {
    first.push_back(means[i]);
    second.push_back(-means[i + 1]);
  }
  CHECK(first == Codes{20, 25, 30, 35, 40, 45, 50, 55, 60});
  CHECK(second == first);
}

TEST_CASE("mean pool: has the grid of x, and refuses what is no window") {
  test::ProgramBuilder b;
  const ProgramNodeId x = b.codes({2, 6, 3}, {DType::S8, 0.5, 100, -7, 9});
  const ProgramNodeId y = b.add(integer::MeanPool{{.kernel = {2}}}, {x});
  IntegerValue expected = b.program[x].value;
  expected.type.shape = {2, 3, 3};
  CHECK(b.program[y].value == expected);
  const auto refusal = [&](const integer::MeanPool& op, ProgramNodeId of) {
    return test::error_text<GraphError>([&] { b.add(op, {of}); });
  };
  CHECK(refusal({{.kernel = {7}}}, x).ends_with("spans 7 along l, padded x has 6"));
  CHECK(
      refusal(
          {{.kernel = {1 << 24}, .padding = Padding::Explicit, .pads_begin = {(1 << 24) - 6}}},
          x)
          .ends_with("windows may have at most 2^23 elements, windows of [16777216] have "
                     "16777216"));
  const ProgramNodeId sums = b.add(integer::Sum{.axes = {0}}, {x});
  CHECK(refusal({{.kernel = {2}}}, sums).ends_with("x must be codes, got s32[6, 3]"));
}

TEST_CASE("softmax: exponentials are those of the real function to 2^-22") {
  for (const double scale : {0x1.8p-26, 0x1p-9, double{0.07f}, 1.0}) {
    for (const double beta : {1.0, 0.37}) {
      const integer::Exponentials exps = integer::Softmax{beta}.exponentials(scale * 2);
      for (size_t d = 0; d < exps.size(); ++d) {
        const double real = std::exp(-beta * scale * 2 * static_cast<double>(d));
        CHECK(std::fabs(exps[d] * 0x1p-31 - real) < 0x1p-22);
      }
    }
  }
  // Differences below -31 in fixed point are left out.
  const integer::Exponentials large = integer::Softmax{}.exponentials(0x1p30);
  CHECK(large[0] == 2147483647);
  CHECK(std::ranges::count(large, 0) == 255);
}

TEST_CASE("softmax: rows of all lengths against the real function") {
  const Random random(3, 1);
  uint64_t draws = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const auto n = static_cast<int64_t>(1 + random.below(draws++, 40));
    const auto scale = static_cast<float>(0.01 + 0.3 * random.uniform(draws++));
    std::vector<int> codes;
    for (int64_t i = 0; i < 3 * n; ++i) {
      codes.push_back(static_cast<int>(random.below(draws++, 256)) - 128);
    }
    const CodeGrid grid = test::whole_grid(DType::S8, double{scale}, trial - 100);
    const std::vector<int> y = run<int8_t>(integer::Softmax{}, {3, n}, grid, codes);
    for (size_t begin = 0; begin < y.size(); begin += static_cast<size_t>(n)) {
      const auto end = begin + static_cast<size_t>(n);
      double sum = 0;
      for (size_t i = begin; i < end; ++i) sum += std::exp(codes[i] * double{scale});
      for (size_t i = begin; i < end; ++i) {
        const double real = 256 * std::exp(codes[i] * double{scale}) / sum;
        CHECK(std::fabs(std::min(real, 255.0) - (y[i] + 128)) <= 0.51);
      }
    }
  }
}

TEST_CASE("softmax: rows of one code, of equal codes, and of the largest alone") {
  using Codes = std::vector<int>;
  const integer::Softmax op;
  CHECK(run<int8_t>(op, {2, 1}, s8, {-128, 5}) == Codes{127, 127});
  CHECK(run<int8_t>(op, {2, 2}, s8, {9, 9, -128, -128}) == Codes{0, 0, 0, 0});
  CHECK(run<int8_t>(op, {1, 3}, test::whole_grid(DType::S8, 0x1p40), {7, 6, 7}) ==
        Codes{0, -128, 0});
  for (const int64_t n : {511, 512, 4095}) {
    const Codes equal(static_cast<size_t>(n), 3);
    // 256 / 511 is above 1/2, and 256 / 512 below it in fixed point.
    CHECK(run<int8_t>(op, {1, n}, s8, equal) ==
          Codes(static_cast<size_t>(n), n == 511 ? -127 : -128));
  }
}

TEST_CASE("softmax: other operands and numbers are refused") {
  test::ProgramBuilder b;
  const auto refusal = [&](const integer::Softmax& op, const Shape& shape,
                           const CodeGrid& grid) {
    const std::string label = fmt::format("x{}", b.program.size());
    const ProgramNodeId q =
        b.add(integer::Quantize{grid}, {b.add(integer::Input{shape, false}, {}, label)});
    return test::error_text<GraphError>([&] { b.add(op, {q}); });
  };
  CHECK(refusal({}, {2, 3}, test::whole_grid(DType::U8, 0.5))
            .ends_with("x must be codes s8 [..., c], got u8[2, 3]"));
  CHECK(refusal({}, {}, s8).ends_with("x must be codes s8 [..., c], got s8[]"));
  CHECK(refusal({}, {1, 4096}, s8)
            .ends_with("x must have 1 to 4095 codes along the last axis, got s8[1, 4096]"));
  CHECK(refusal({}, {1, 0}, s8).ends_with("along the last axis, got s8[1, 0]"));
  CHECK(refusal({.beta = 0}, {1, 2}, s8).ends_with("beta must be positive and finite, got 0"));
  CHECK(refusal({.beta = 0.5}, {1, 2}, test::whole_grid(DType::S8, 0x1p-25))
            .ends_with("beta times the scale of x must be above 2^-26, got 0.5 times "
                       "2.9802322387695312e-08"));
}

}  // namespace
