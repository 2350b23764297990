// Accumulators of products of 16-bit codes, requantized as in TFLite and CMSIS-NN, in all
// sessions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/core/random.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/program/session_hooks.h"

using namespace qtape;

namespace {

__extension__ using Wide = __int128;

constexpr int64_t rows = 6, inputs = 40, outputs = 9;

/// A product of codes of `x` with random weights, and its codes `y`. Scales differ between
/// outputs, so that some accumulators are a few steps of y and others far out of range.
struct S64Layer {
  IntegerProgram program;
  ProgramNodeId x, accumulators, y;
  std::vector<int8_t> weights;
  std::vector<int32_t> biases;
  std::vector<float> scales;

  S64Layer(Requantization requantization, const CodeGrid& grid, const CodeGrid& output)
      : program(requantization) {
    const Random random(11, 1);
    const ProgramNodeId floats = program.add(integer::Input{.shape = {rows, inputs}}, {}, "x");
    x = program.add(integer::Quantize{grid}, {floats}, "codes");
    for (uint64_t i = 0; i < outputs * inputs; ++i) {
      weights.push_back(static_cast<int8_t>(static_cast<int64_t>(random.below(i, 255)) - 127));
    }
    for (uint64_t c = 0; c < outputs; ++c) {
      biases.push_back(static_cast<int32_t>(c * 1'000'003) - 4'000'000);
      scales.push_back(std::ldexp(1.0f + static_cast<float>(random.uniform(1000 + c)),
                                  -10 - 2 * static_cast<int>(c)));
    }
    const integer::Linear linear{
        pack_weights(weights, {outputs, inputs}, 8, scales, biases, program[x].value)};
    accumulators = program.add(linear, {x}, "fc");
    y = program.add(integer::Requantize{output}, {accumulators}, "y");
    program.set_outputs({y});
  }

  int64_t sum(const IntegerSession& session, int64_t row, int64_t c) const {
    int64_t total = biases[static_cast<size_t>(c)];
    for (int64_t i = 0; i < inputs; ++i) {
      total += (session.integer(x, row * inputs + i) - program[x].value.zero_point) *
               weights[static_cast<size_t>(c * inputs + i)];
    }
    return total;
  }

  /// Returns the sum times the 16-bit mantissa, rounded once, ties up.
  int64_t code(int64_t sum, int64_t c, const CodeGrid& grid) const {
    int exponent = 0;
    const double ratio =
        program[x].value.scales[0] * double{scales[static_cast<size_t>(c)]} / grid.scale;
    const double fraction = std::frexp(ratio, &exponent);
    // Rounding halves of the 31-bit mantissa does not affect the 16-bit one.
    const auto mantissa = static_cast<int64_t>(std::floor(fraction * 0x1p31 + 0.5));
    const int64_t reduced = std::min<int64_t>((mantissa + 0x8000) / 0x10000, 0x7fff);
    const Wide product = Wide{sum} * reduced;
    const auto steps =
        static_cast<int64_t>((product + (Wide{1} << (14 - exponent))) >> (15 - exponent));
    return std::clamp<int64_t>(steps + grid.zero_point, grid.low, grid.high);
  }
};

void feed(IntegerSession& session, uint64_t seed) {
  const Random random(seed, 2);
  const auto x = session.input("x");
  for (uint64_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(random.uniform(i) * 8 - 4);
  }
}

}  // namespace

TEST_CASE("s64 accumulators: codes of 16 bits are requantized by 16 bits of the mantissa") {
  const CodeGrid s16{.dtype = DType::S16, .scale = 0x1p-13, .low = -32768, .high = 32767};
  const CodeGrid u16{
      .dtype = DType::U16, .scale = 0.00013f, .zero_point = 30000, .low = 0, .high = 65535};
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
          int64_t wrong = 0, inside = 0;
          for (int64_t i = 0; i < rows * outputs; ++i) {
            const int64_t sum = layer.sum(session, i / outputs, i % outputs);
            const int64_t expected = layer.code(sum, i % outputs, output);
            wrong += session.integer(layer.y, i) == expected ? 0 : 1;
            inside += expected > output.low && expected < output.high ? 1 : 0;
          }
          CAPTURE(kind);
          CHECK(wrong == 0);
          CHECK(inside > rows);
        }
      }
    }
  }
}
