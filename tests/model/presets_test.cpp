// Presets compared with each system's formula, written in double with explicit rounding.
#include "qtape/model/presets.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/quantizer_bench.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::QuantizerBench;
using test::random_floats;

namespace {

/// One system's quantizer at a given scale and zero point: the value, and whether the gradient
/// passes. Quotients are computed in f32; everything after them is exact in double.
struct Formula {
  std::function<double(float x, float s, double zp)> rounded;  ///< code before the clamp
  double q_min, q_max;
  bool by_value;  ///< the range test uses x instead of the code
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
  for (float v : random_floats(500, 11)) x.push_back(300 * s * v);
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
    std::vector<float> y, dx;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        y.push_back(NAN);
        dx.push_back(0);
        continue;
      }
      const double code = formula.rounded(x[i], s, zero_point);
      const double clamped = std::fmin(std::fmax(code, formula.q_min), formula.q_max);
      const auto value = static_cast<float>((clamped - zero_point) * double{s});
      const auto low = static_cast<float>((formula.q_min - zero_point) * double{s});
      const auto high = static_cast<float>((formula.q_max - zero_point) * double{s});
      const bool inside = formula.by_value ? x[i] >= low && x[i] <= high
                                           : code >= formula.q_min && code <= formula.q_max;
      // Codes have no negative zero.
      y.push_back(value + 0.0f);
      dx.push_back(inside ? 2.0f : 0.0f);
    }
    CAPTURE(s);
    CHECK(test::first_difference(bench.y, y, [](float a, float b) {
            return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
                   (std::isnan(a) && std::isnan(b));
          }) == "");
    CHECK(test::first_difference(bench.dx, dx) == "");
  }
}

double quotient(float x, float s) { return double{x / s}; }
double product(float x, float s) { return double{x * (1.0f / s)}; }

/// Runs `op`, whose channels are the rows of x, for 1,000 steps and compares it with running
/// averages old + 0.01f (new - old) written in double, where every f32 operation is rounded
/// separately: the product of two f32 values is exact there, and rounding sums twice gives the
/// same result.
void check_torch_average(const FakeQuantize& op, int64_t rows,
                         const std::function<QParams<float>(float min, float max)>& settle) {
  const int64_t columns = 7;
  QuantizerBench<float, float> bench(op, {rows, columns});
  const auto channels = bench.state.size() / 2;
  const auto rounded = [](double v) { return static_cast<float>(v); };
  const auto average = [&](float old, float now) {
    const float step = rounded(double{now} - double{old});
    return rounded(double{old} + double{rounded(double{0.01f} * double{step})});
  };
  std::vector<float> low(channels), high(channels);
  std::string states, scales;
  for (uint64_t n = 0; n < 1000; ++n) {
    const float spread = n % 10 == 0 ? 4.0f : 1.0f;
    bench.x = random_floats(static_cast<size_t>(rows * columns), n);
    for (float& x : bench.x) x = spread * x + 0.25f;
    bench.forward_step({.mode = mode::qat, .number = n});
    const size_t each = bench.x.size() / channels;
    for (size_t c = 0; c < channels; ++c) {
      const auto [min, max] =
          std::minmax_element(bench.x.begin() + std::ptrdiff_t(c * each),
                              bench.x.begin() + std::ptrdiff_t(c * each + each));
      low[c] = n == 0 ? *min : average(low[c], *min);
      high[c] = n == 0 ? *max : average(high[c], *max);
      const auto place = fmt::format("step {} channel {};", n, c);
      if (bench.state[c] != low[c] || bench.state[channels + c] != high[c]) states += place;
      const auto at = static_cast<int64_t>(c);
      if (bench.qparams(at) != settle(low[c], high[c])) scales += place;
    }
  }
  CHECK(states == "");
  CHECK(scales == "");
}

/// Returns max|x| / 127.5, at least 2^-23.
QParams<float> half_span(float min, float max) {
  return {std::fmax(std::fmax(-min, max) / 127.5f, 0x1p-23f), 0};
}

/// Returns the qparams of the first observed call for data in [-1, 3].
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
  check_torch_average(presets::torch().weight, 5, half_span);
  check_torch_average(presets::torch().input, 3, [](float min, float max) {
    const float scale = std::fmax((max - min) / 255.0f, 0x1p-23f);
    return QParams<float>{scale, -std::nearbyint(min / scale)};
  });
  QuantizerBench<float, float> zeros(presets::torch().input, {2});
  zeros.forward(mode::qat);
  // PyTorch uses 2^-23 here, which leaves no room for a bias: see docs/quantization.md.
  const float step = 2 / 255.0f;
  CHECK(zeros.qparams(0) == QParams<float>{step, std::nearbyint(1 / step)});
}

TEST_CASE("presets: oxicuda") {
  const auto before = [](float x, float s, double zp) {
    return std::round(double{x / s + static_cast<float>(zp)});
  };
  check_preset(presets::oxicuda().weight, {before, -128, 127, true}, 0);
  for (double zp : {0.0, 3.0, 127.0, 128.0, 200.0, 255.0}) {
    check_preset(presets::oxicuda().input, {before, 0, 255, true}, zp);
  }
  for (double zp : {0.0, 3.0, 32768.0, 65535.0}) {
    check_preset(presets::oxicuda(16).input, {before, 0, 65535, true}, zp);
    check_preset(presets::oxicuda().input.with(&FakeQuantize::bits, 16),
                 {before, 0, 65535, true}, zp);
  }
  CHECK(first_qparams(presets::oxicuda().input) == QParams<float>{4.0f / 255, 64});
  CHECK(first_qparams(presets::oxicuda().weight) == QParams<float>{3.0f / 127, 0});
}

TEST_CASE("presets: oxicuda's ranges are at least 1e-8") {
  for (int bits : {2, 4, 8, 16}) {
    const auto [weight, input] = presets::oxicuda(bits);
    const auto codes = static_cast<float>(std::ldexp(1.0, bits));
    for (float end : {1e-9f, 0.9999e-8f, 1e-8f, 1.0001e-8f, 3e-8f}) {
      const auto scale = [&](FakeQuantize op) {
        op.axis.reset();
        QuantizerBench<float, float> bench(op, {2});
        bench.x = {0, end};
        bench.forward(mode::qat);
        return bench.scales()[0];
      };
      CHECK(scale(input) == std::fmax(end, 1e-8f) / (codes - 1));
      CHECK(scale(weight) == std::fmax(end, 1e-8f) / (codes / 2 - 1));
    }
  }
  for (int bits : {std::numeric_limits<int>::min(), -1, 0, 1, 17, 1000}) {
    CHECK(test::error_text<ArgumentError>([&] { (void)presets::oxicuda(bits); }) ==
          fmt::format("bits must be in 2..16, got {}", bits));
  }
}

TEST_CASE("presets: baracuda") {
  const auto by_channel = [](float x, float s, double zp) {
    return std::nearbyint(quotient(x, s)) + zp;
  };
  const auto by_tensor = [](float x, float s, double zp) {
    return std::nearbyint(product(x, s)) + zp;
  };
  check_preset(presets::baracuda().weight, {by_channel, -128, 127, false}, 0);
  check_preset(presets::baracuda().input, {by_tensor, 0, 255, false}, 128);
}

TEST_CASE("presets: horizon") {
  const Formula formula{[](float x, float s, double) { return half_up(quotient(x, s)); }, -128,
                        127, false};
  check_preset(presets::horizon().weight, formula, 0);
  check_preset(presets::horizon().input, formula, 0);
  CHECK(first_qparams(presets::horizon().input) == QParams<float>{3.0f / 127.5f, 0});
  check_torch_average(presets::horizon().weight, 5, half_span);
  check_torch_average(presets::horizon().input, 3, half_span);
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

TEST_CASE("presets: by name") {
  const std::vector<std::string_view> names = presets::names();
  CHECK(names == std::vector<std::string_view>{"rlx", "torch", "oxicuda", "baracuda", "horizon",
                                               "onnx"});
  const std::vector<QuantizerPreset> made = {presets::rlx(),     presets::torch(),
                                             presets::oxicuda(), presets::baracuda(),
                                             presets::horizon(), presets::onnx()};
  for (size_t i = 0; i < names.size(); ++i) {
    CHECK(presets::at(names[i]).weight == made[i].weight);
    CHECK(presets::at(names[i]).input == made[i].input);
  }
  CHECK(
      test::error_text<ArgumentError>([] { (void)presets::at("Torch"); }) ==
      "unknown preset \"Torch\"; expected one of rlx, torch, oxicuda, baracuda, horizon, onnx");
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
