// Presets against each system's formula, written out in double with its own rounding calls.
#include "qtape/engine/presets.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "qtape/tests/support/quantizer_bench.h"

using namespace qtape;
using test::QuantizerBench;
using test::random_values;

namespace {

/// One system's quantizer at a given scale and zero point: the value and whether the gradient
/// passes. Quotients are those of f32 arithmetic; everything after them is exact in double.
struct Formula {
  std::function<double(float x, float s, double zp)> rounded;  ///< code before the clamp
  double q_min, q_max;
  bool by_value;  ///< inside judged by x instead of by the code
};

double half_up(double v) { return std::floor(v) + (v - std::floor(v) >= 0.5 ? 1 : 0); }

std::vector<float> probes(float s) {
  std::vector<float> x = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,
                          1e-45f, -1e-45f, 3e38f,    -3e38f};
  for (int k = -260; k <= 260; ++k) {
    const float tie = (static_cast<float>(k) + 0.5f) * s;
    for (float v : {tie, std::nextafter(tie, 1e30f), std::nextafter(tie, -1e30f),
                    static_cast<float>(k) * s}) {
      x.push_back(v);
    }
  }
  for (float v : random_values(500, 11)) x.push_back(300 * s * v);
  return x;
}

void check_preset(FakeQuantize op, const Formula& formula, double zero_point) {
  op.axis.reset();
  op.scale_mode = Fixed{};
  for (float s : {1.0f, 0.1f, 0.0123f}) {
    const std::vector<float> x = probes(s);
    QuantizerBench<float, float> bench(op, {static_cast<int64_t>(x.size())});
    bench.x = x;
    std::ranges::fill(bench.dy, 2.0f);
    bench.state = {s};
    bench.zero_point = {static_cast<float>(zero_point)};
    bench.forward(mode::qat);
    bench.backward();
    int wrong = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        wrong += std::isnan(bench.y[i]) && bench.dx[i] == 0 ? 0 : 1;
        continue;
      }
      const double code = formula.rounded(x[i], s, zero_point);
      const double clamped = std::fmin(std::fmax(code, formula.q_min), formula.q_max);
      const auto value = static_cast<float>((clamped - zero_point) * double{s});
      const auto low = static_cast<float>((formula.q_min - zero_point) * double{s});
      const auto high = static_cast<float>((formula.q_max - zero_point) * double{s});
      const bool inside = formula.by_value ? x[i] >= low && x[i] <= high
                                           : code >= formula.q_min && code <= formula.q_max;
      // A code has no sign of zero.
      wrong +=
          std::bit_cast<uint32_t>(bench.y[i]) == std::bit_cast<uint32_t>(value + 0.0f) ? 0 : 1;
      wrong += bench.dx[i] == (inside ? 2.0f : 0.0f) ? 0 : 1;
    }
    CAPTURE(s);
    CHECK(wrong == 0);
  }
}

double quotient(float x, float s) { return double{x / s}; }
double product(float x, float s) { return double{x * (1.0f / s)}; }

/// What the first observed call makes of data in [-1, 3].
QParams<float> first_qparams(FakeQuantize op) {
  op.axis.reset();
  QuantizerBench<float, float> bench(op, {2});
  bench.x = {-1.0f, 3.0f};
  bench.forward(mode::qat);
  return bench.qparams(0);
}

}  // namespace

TEST_CASE("presets: rlx") {
  const Formula formula{[](float x, float s, double) { return std::round(quotient(x, s)); },
                        -127, 127, true};
  check_preset(presets::rlx().weight, formula, 0);
  check_preset(presets::rlx().input, formula, 0);
  CHECK(first_qparams(presets::rlx().input) == QParams<float>{3.0f / 127, 0});
}

TEST_CASE("presets: torch") {
  const auto rounded = [](float x, float s, double zp) {
    return std::nearbyint(product(x, s)) + zp;
  };
  check_preset(presets::torch().weight, {rounded, -128, 127, false}, 0);
  for (double zp : {0.0, 77.0, 255.0}) {
    check_preset(presets::torch().input, {rounded, 0, 255, false}, zp);
  }
  CHECK(first_qparams(presets::torch().weight) == QParams<float>{3.0f / 127.5f, 0});
  CHECK(first_qparams(presets::torch().input) == QParams<float>{4.0f / 255, 64});
  // The moving average: min + 0.01 (new - min), and a scale of at least 2^-23.
  QuantizerBench<float, float> bench(presets::torch().input, {2});
  bench.x = {-1.0f, 3.0f};
  bench.forward(mode::qat);
  bench.x = {-2.0f, 1.0f};
  bench.forward(mode::qat);
  CHECK(bench.state[0] == doctest::Approx(-1.01).epsilon(1e-6));
  CHECK(bench.state[1] == doctest::Approx(2.98).epsilon(1e-6));
  QuantizerBench<float, float> zeros(presets::torch().input, {2});
  zeros.forward(mode::qat);
  CHECK(zeros.qparams(0) == QParams<float>{0x1p-23f, 0});
}

TEST_CASE("presets: oxicuda") {
  const auto before = [](float x, float s, double zp) {
    return std::round(double{x / s + static_cast<float>(zp)});
  };
  check_preset(presets::oxicuda().weight, {before, -128, 127, true}, 0);
  for (double zp : {-128.0, 3.0, 127.0}) {
    check_preset(presets::oxicuda().input, {before, -128, 127, true}, zp);
  }
  CHECK(first_qparams(presets::oxicuda().input) == QParams<float>{4.0f / 255, -64});
}

TEST_CASE("presets: baracuda") {
  const auto rounded = [](float x, float s, double zp) {
    return std::nearbyint(product(x, s)) + zp;
  };
  check_preset(presets::baracuda().weight, {rounded, -128, 127, false}, 0);
  check_preset(presets::baracuda().input, {rounded, 0, 255, false}, 128);
}

TEST_CASE("presets: horizon") {
  const Formula formula{[](float x, float s, double) { return half_up(quotient(x, s)); }, -128,
                        127, false};
  check_preset(presets::horizon().weight, formula, 0);
  check_preset(presets::horizon().input, formula, 0);
  CHECK(first_qparams(presets::horizon().input) == QParams<float>{3.0f / 127.5f, 0});
}

TEST_CASE("presets: onnx") {
  const auto rounded = [](float x, float s, double zp) {
    return std::nearbyint(quotient(x, s)) + zp;
  };
  check_preset(presets::onnx().weight, {rounded, -128, 127, false}, 0);
  for (double zp : {0.0, 128.0, 255.0}) {
    check_preset(presets::onnx().input, {rounded, 0, 255, false}, zp);
  }
}

TEST_CASE("presets: a copy with changes leaves the preset alone") {
  const FakeQuantize base = presets::torch().weight;
  const FakeQuantize four =
      base.with(&FakeQuantize::bits, 4).with(&FakeQuantize::axis, std::nullopt);
  CHECK(four.bits == 4);
  CHECK(!four.axis);
  CHECK(four.denominator == base.denominator);
  CHECK(base == presets::torch().weight);
  CHECK(base.bits == 8);
}
