// Accumulators of products of 16-bit codes, requantized as in TFLite and CMSIS-NN, in all
// sessions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/program/session_hooks.h"
#include "qtape/tests/support/exact_formulas.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

constexpr int64_t rows = 6, inputs = 40, outputs = 9;

/// A product of codes of `x` with random weights, and its codes `y`. Scales differ between
/// outputs, so that some accumulators are a few steps of y and others far out of range.
struct S64Layer : test::ProgramBuilder {
  ProgramNodeId x, accumulators, y;
  test::Weights weights;

  S64Layer(Requantization requantization, const CodeGrid& grid, const CodeGrid& output)
      : ProgramBuilder(requantization) {
    const Random random(11, 1);
    x = codes({rows, inputs}, grid);
    for (uint64_t i = 0; i < outputs * inputs; ++i) {
      weights.codes.push_back(
          static_cast<int8_t>(static_cast<int64_t>(random.below(i, 255)) - 127));
    }
    weights.scales.clear();
    for (uint64_t c = 0; c < outputs; ++c) {
      weights.bias.push_back(static_cast<int32_t>(c * 1'000'003) - 4'000'000);
      weights.scales.push_back(std::ldexp(1.0f + static_cast<float>(random.uniform(1000 + c)),
                                          -10 - 2 * static_cast<int>(c)));
    }
    accumulators = linear(x, weights, "fc");
    y = add(integer::Requantize{output}, {accumulators}, "y");
    program.set_outputs({y});
  }

  int64_t sum(const IntegerSession& session, int64_t row, int64_t c) const {
    int64_t total = weights.bias[static_cast<size_t>(c)];
    for (int64_t i = 0; i < inputs; ++i) {
      total += (session.integer(x, row * inputs + i) - program[x].value.zero_point) *
               weights.codes[static_cast<size_t>(c * inputs + i)];
    }
    return total;
  }

  int64_t code(int64_t sum, int64_t c, const CodeGrid& grid,
               Requantization requantization) const {
    const double scale =
        program[x].value.scales[0] * double{weights.scales[static_cast<size_t>(c)]};
    const int64_t steps = test::formulas::requant(sum, scale, grid.scale, requantization, true);
    return std::clamp<int64_t>(steps + grid.zero_point, grid.low, grid.high);
  }
};

void feed(IntegerSession& session, uint64_t seed) {
  test::fill_uniform(session.input("x"), Random(seed, 2), -4, 4);
}

}  // namespace

TEST_CASE("s64 accumulators: codes of 16 bits are requantized by 16 bits of the mantissa") {
  const CodeGrid s16 = test::whole_grid(DType::S16, 0x1p-13);
  const CodeGrid u16 = test::whole_grid(DType::U16, double{0.00013f}, 30000);
  const CodeGrid s8{.scale = 0.25, .zero_point = 3, .low = -100, .high = 127};
  for (const CodeGrid& grid : {s16, u16}) {
    for (const CodeGrid& output : {s16, u16, s8}) {
      for (Requantization requantization :
           {Requantization::SingleRounding, Requantization::DoubleRounding}) {
        const S64Layer layer(requantization, grid, output);
        CHECK(layer.program[layer.accumulators].value.type.dtype == DType::S64);
        for (int kind = 0; kind < 4; ++kind) {
          const KeptValues kept = kind == 1 ? KeptValues::All : KeptValues::Codes;
          IntegerSession session(
              layer.program, {.reference = kind == 0, .threads = 2, .kept = kept},
              {.path = kind == 2 ? std::optional(ProductPath::Plain) : std::nullopt});
          feed(session, 5);
          session.run();
          int64_t inside = 0;
          std::vector<int64_t> expected, found;
          for (int64_t i = 0; i < rows * outputs; ++i) {
            const int64_t sum = layer.sum(session, i / outputs, i % outputs);
            expected.push_back(layer.code(sum, i % outputs, output, requantization));
            found.push_back(session.integer(layer.y, i));
            inside += expected.back() > output.low && expected.back() < output.high ? 1 : 0;
          }
          CAPTURE(kind);
          CHECK(test::first_difference(found, expected) == "");
          CHECK(inside > rows);
        }
      }
    }
  }
}
