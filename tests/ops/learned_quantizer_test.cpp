// FakeQuantizeLSQ and FakeQuantizePACT: gradients compared with differences, initialization.
// See quantize_test.cpp for the values and dx of LSQ, and the table of ops for sums of
// gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "qtape/core/half.h"
#include "qtape/ops/ops.h"
#include "qtape/tests/support/quantize_oracle.h"
#include "qtape/tests/support/quantizer_bench.h"

using namespace qtape;
using test::check_calls;
using test::QuantizerBench;
using test::random_floats;

namespace {

using LsqBench = QuantizerBench<double, double, FakeQuantizeLSQ>;
using Pact = QuantizerBench<double, double, FakeQuantizePACT>;

/// Random x, about uniform in [-spread, spread], at least 1e-2 steps of `scale` away from ties.
std::vector<double> away_from_ties(size_t n, double scale, double spread, uint64_t seed) {
  const Random random(seed, 5);
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) {
    const double v = (2 * random.uniform(i) - 1) * spread / scale;
    const double part = v - std::floor(v);
    x[i] = (std::fabs(part - 0.5) < 1e-2 ? v + 0.05 : v) * scale;
  }
  return x;
}

template <class Bench>
double objective(Bench& bench) {
  bench.forward(mode::eval);
  return std::inner_product(bench.y.begin(), bench.y.end(), bench.dy.begin(), 0.0);
}

/// Central difference of the objective in one number.
template <class Bench>
double difference(Bench& bench, double& at, double step) {
  const double center = at;
  at = center + step;
  const double above = objective(bench);
  at = center - step;
  const double below = objective(bench);
  at = center;
  return (above - below) / (2 * step);
}

}  // namespace

TEST_CASE("lsq: the scale's gradient is that of differences and the straight-through part") {
  for (auto range : {CodeRange::Narrow, CodeRange::Full, CodeRange::Unsigned}) {
    for (double sign : {1.0, -1.0}) {
      const FakeQuantizeLSQ op{.bits = 3, .range = range};
      LsqBench bench(op, {301});
      bench.state = {sign * 0.21};
      bench.x = away_from_ties(301, 0.21, 1.5, 8);
      for (size_t i = 0; i < 301; ++i) bench.dy[i] = std::sin(static_cast<double>(i));
      bench.train();
      const double ds = bench.dstate[0];
      // With rounding frozen, y = s (clamp(z) + r). The straight-through part removes the term
      // that dx x / s counts twice.
      const double through =
          std::inner_product(bench.x.begin(), bench.x.end(), bench.dx.begin(), 0.0) / 0.21;
      const double numeric = difference(bench, bench.state[0], 1e-7) - sign * through;
      const double factor = 1 / std::sqrt(301.0 * grid_of(op).limits.q_max);
      CHECK(ds == doctest::Approx(factor * numeric).epsilon(1e-7));
      CHECK(std::fabs(ds) > 1e-4);
    }
  }
}

TEST_CASE("lsq: the zero point's gradient is that of differences") {
  const FakeQuantizeLSQ op{.bits = 3, .range = CodeRange::Unsigned, .scheme = Scheme::Affine};
  LsqBench bench(op, {301});
  bench.state = {0.2};
  bench.zero_point = {3.2};
  // Inside or outside at every zero point used by the difference.
  for (size_t i = 0; i < 301; ++i) {
    bench.x[i] = i % 3 == 0 ? 0.01 * static_cast<double>(i % 7) : i % 3 == 1 ? 2.5 : -2.5;
    bench.dy[i] = std::cos(static_cast<double>(i));
  }
  bench.train();
  const double factor = 1 / std::sqrt(301.0 * 7);
  // Differences over whole codes, because the rounded zero point is constant between them.
  CHECK(bench.dzero_point[0] ==
        doctest::Approx(factor * difference(bench, bench.zero_point[0], 1.0)).epsilon(1e-12));
  CHECK(std::fabs(bench.dzero_point[0]) > 1e-5);
}

TEST_CASE("lsq: the first observed batch initialises, others only read") {
  const FakeQuantizeLSQ op{.bits = 3, .axis = 0};
  LsqBench bench(op, {3, 4});
  const double zeros = std::numeric_limits<double>::min();  // mark of only zeros
  const double first = 4 / std::sqrt(3.0);
  const std::vector<double> x = {1, -1, 2, 4, 0, 0, 0, 0, 1, std::nan(""), -3, INFINITY};
  check_calls<double>(bench, {{.mode = mode::eval, .x = x, .state = {0, 0, 0}}});
  CHECK(bench.scales()[0] == first);
  check_calls<double>(bench, {{.state = {first, zeros, first}}});
  CHECK(bench.status().non_finite == 4);
  CHECK(bench.scales()[1] == 1 / 3.0);
  CHECK(bench.y[4] == 0);
  const std::vector<double> next = {9, 9, 9, 9, 3, -3, 3, -3, 9, 9, 9, 9};
  check_calls<double>(bench, {{.mode = mode::observe,
                               .x = next,
                               .state = {first, 6 / std::sqrt(3.0), first},
                               .y = next}});
}

TEST_CASE("learned quantizers: a scale that is not stored is not trained") {
  const Mode unobserved{.train = true, .quantize = true};
  LsqBench lsq(FakeQuantizeLSQ{.bits = 3}, {4});
  lsq.dy = {1, 2, 3, 4};
  check_calls<double>(lsq,
                      {{.mode = unobserved, .x = {1, -1, 2, 9}, .state = {0}, .dstate = {0}}});
  Pact pact(FakeQuantizePACT{}, {2});
  pact.dy = {1, 2};
  check_calls<double>(pact, {{.mode = unobserved, .x = {1, 2}, .state = {0}, .dstate = {0}}});
}

TEST_CASE(
    "lsq: a scale that saw nothing but zeros is that of -1..1, and zeros teach it nothing") {
  LsqBench bench(FakeQuantizeLSQ{.bits = 4}, {2});
  bench.x = {0, -0.0};
  bench.dy = {1, -2};
  const test::Call<double> zeros{.scales = {1 / 7.0}, .dstate = {0}};
  // A call that does not observe uses the grid of [-1, 1], for any data.
  check_calls(bench, {zeros,
                      zeros,
                      zeros,
                      {.mode = mode::eval, .x = {14, -14}, .y = {1, -1}},
                      {.state = {2 * 14 / std::sqrt(7.0)}}});
  const TensorType x{DType::F64, {2}};
  std::byte* values[] = {reinterpret_cast<std::byte*>(bench.state.data())};
  const FakeQuantizeLSQ op{.bits = 4};
  op.store(x, std::vector<ValueRange<double>>{{0, 0}}, values);
  CHECK(op.load(x, values)[0].scale == 1 / 7.0);
}

TEST_CASE("lsq: an affine quantizer of few bits divides its codes between the signs") {
  const FakeQuantizeLSQ op{.bits = 2, .range = CodeRange::Unsigned, .scheme = Scheme::Affine};
  LsqBench bench(op, {8});
  // 1 of 4 is below 0, which gives 0.75 of 3 steps; the other side gets 2.25.
  check_calls<double>(bench, {{.x = {-1, 0.5, 2, 0.5, 0, 0, 0, 0}, .state = {2 * 0.5 / 1.5}}});
  CHECK(bench.zero_point[0] == 1);
}

TEST_CASE("lsq: values that are not around 0 start from their range") {
  LsqBench bench({.bits = 2, .range = CodeRange::Unsigned, .scheme = Scheme::Affine}, {4});
  check_calls<double>(bench, {{.x = {5, 6, 6, 5}, .state = {2}}});
  CHECK(bench.zero_point[0] == 0);
}

TEST_CASE("lsq: with more than 4 bits scales start from the range") {
  for (const int bits : {4, 5, 8}) {
    const bool few = bits == 4;
    LsqBench symmetric({.bits = bits}, {2});
    const double q_max = (1 << (bits - 1)) - 1;
    check_calls<double>(symmetric,
                        {{.x = {-3, 1}, .state = {few ? 4 / std::sqrt(q_max) : 3 / q_max}}});
    LsqBench affine({.bits = bits, .range = CodeRange::Unsigned, .scheme = Scheme::Affine},
                    {2});
    const double span = (1 << bits) - 1;
    check_calls<double>(affine, {{.x = {-3, 1}, .state = {4 / span}}});
    CHECK(affine.zero_point[0] == std::nearbyint(span * 0.75));
  }
}

TEST_CASE("lsq: a scale that the optimizer drives to zero or below recovers") {
  const FakeQuantizeLSQ op{.bits = 4};
  const auto x = random_floats(400, 5);
  for (float start : {0.0f, 1e-20f, -1e-20f, -0.02f, 0.3f}) {
    QuantizerBench<float, float, FakeQuantizeLSQ> bench(op, {400});
    bench.x = x;
    bench.state = {start};
    float scale = 0;
    for (int step = 0; step < 400; ++step) {
      bench.forward(mode::qat);
      CHECK(bench.scales()[0] >= 1e-12f);
      CHECK(std::isfinite(bench.scales()[0]));
      // The loss is the squared error of the values; steps have a fixed length, as in Adam.
      for (size_t i = 0; i < 400; ++i) bench.dy[i] = bench.y[i] - bench.x[i];
      bench.backward();
      bench.state[0] -=
          0.002f * static_cast<float>((bench.dstate[0] > 0) - (bench.dstate[0] < 0));
      scale = std::fabs(bench.state[0]);
    }
    CAPTURE(start);
    CHECK(scale > 0.08f);
    CHECK(scale < 0.2f);
  }
}

TEST_CASE(
    "lsq: in the warm-up the scale is the mean of what the data gives, without gradient") {
  const FakeQuantizeLSQ op{.bits = 2};
  LsqBench bench(op, {2});
  bench.dy = {1, 2};
  for (uint64_t n = 0; n < 3; ++n) {
    const double v = static_cast<double>(n + 1);
    bench.x = {v, -v};
    bench.forward_step({.mode = mode::qat, .number = n, .warm_up = 3});
    bench.backward();
    CHECK(bench.dstate[0] == 0);
    CHECK(bench.state[0] == doctest::Approx(1 + v).epsilon(1e-15));
  }
  bench.forward_step({.mode = mode::qat, .number = 3, .warm_up = 3});
  bench.backward();
  CHECK(bench.dstate[0] != 0);
  CHECK(bench.state[0] == doctest::Approx(4.0));
}

TEST_CASE("lsq: in the warm-up zero points are averaged before they are rounded") {
  const FakeQuantizeLSQ op{.range = CodeRange::Unsigned, .scheme = Scheme::Affine};
  LsqBench bench(op, {2});
  for (uint64_t n = 0; n < 100; ++n) {
    bench.x = n < 10 ? std::vector<double>{0, 255} : std::vector<double>{-10, 245};
    bench.forward_step({.mode = mode::qat, .number = n, .warm_up = 100});
  }
  CHECK(bench.zero_point[0] == doctest::Approx(9).epsilon(1e-12));
  CHECK(bench.qparams(0).zero_point == 9);
}

TEST_CASE("lsq: a scale that is not finite is a fault; switched off it is the identity") {
  LsqBench bench(FakeQuantizeLSQ{}, {2});
  bench.x = {0.3, 1.7};
  bench.dy = {1, 2};
  bench.state = {std::nan("")};
  bench.forward(mode::qat);
  CHECK(bench.status().fault.text != nullptr);
  CHECK(bench.y == bench.x);
  bench.state = {1.0};
  bench.status().enabled = false;
  bench.dstate = {5};
  bench.forward(mode::eval);
  bench.backward();
  CHECK(bench.y == bench.x);
  CHECK(bench.dx == bench.dy);
  CHECK(bench.dstate[0] == 0);
}

TEST_CASE("pact: values, dx and dalpha") {
  for (auto range : {CodeRange::Unsigned, CodeRange::Narrow}) {
    const FakeQuantizePACT op{.bits = 3, .range = range};
    Pact bench(op, {7});
    bench.state = {2.1};
    bench.x = {-3, -2.1, -0.5, 0, 1.04, 2.1, 5};
    bench.dy = {1, 2, 4, 8, 16, 32, 64};
    bench.train();
    const bool is_signed = range == CodeRange::Narrow;
    const double s = 2.1 / grid_of(op).limits.q_max;
    for (size_t i = 0; i < 7; ++i) {
      const double low = is_signed ? -2.1 : 0.0;
      const double expected = std::nearbyint(std::clamp(bench.x[i], low, 2.1) / s) * s;
      CHECK(bench.y[i] == doctest::Approx(expected).epsilon(1e-15));
    }
    CHECK(bench.dx == std::vector<double>{0, 0, is_signed ? 4.0 : 0.0, 8, 16, 0, 0});
    CHECK(bench.dstate[0] == (is_signed ? 96 - 3 : 96));
    // Differences, with elements beyond alpha only.
    bench.x = {-3, -4, -9, 2.5, 3, 4, 5};
    bench.train();
    CHECK(bench.dstate[0] ==
          doctest::Approx(difference(bench, bench.state[0], 1e-6)).epsilon(1e-8));
  }
}

TEST_CASE("pact: alpha starts from the data, and below 0 it is a fault") {
  QuantizerBench<float, float, FakeQuantizePACT> bench(FakeQuantizePACT{.axis = 1}, {2, 3});
  // The second channel observed nothing above 0.
  check_calls<float>(bench,
                     {{.mode = mode::eval, .x = {1, -2, 3, 0.5f, -1, 7}, .state = {0, 0, 0}},
                      {.state = {1, std::numeric_limits<float>::min(), 7}}});
  for (float bad : {-1.0f, std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    bench.state = {1, bad, 7};
    bench.status().fault = {};
    bench.forward(mode::eval);
    REQUIRE(bench.status().fault.text != nullptr);
    CHECK(std::string(bench.status().fault.text) ==
          "alpha of channel {index} is {value}; it must be above 0");
    CHECK(bench.status().fault.index == 1);
    CHECK(bench.y == bench.x);
  }
}

TEST_CASE("pact: an alpha that saw nothing above 0 is 1 until something is") {
  const FakeQuantizePACT op{.bits = 2};
  REQUIRE(op.range == CodeRange::Unsigned);
  Pact bench(op, {2});
  check_calls<double>(bench, {{.x = {0, -3}, .state = {std::numeric_limits<double>::min()}}});
  bench.state = {0};
  check_calls<double>(bench, {{.x = {0, 0}},
                              {.scales = {1 / 3.0}},
                              {.mode = mode::eval, .x = {9, 9}, .scales = {1 / 3.0}},
                              {.state = {9}}});
}

TEST_CASE("pact: a channel of zeros has no gradient of alpha until it has data") {
  Pact bench(FakeQuantizePACT{.axis = 0}, {2, 2});
  bench.dy = {3, 4, 5, 6};
  check_calls<double>(bench, {{.x = {0, 0, 1, 2},
                               .state = {std::numeric_limits<double>::min(), 2},
                               .dx = {3, 4, 5, 0},
                               .dstate = {0, 6}}});
  bench.x = {0, 9, 1, INFINITY};
  bench.forward_step({.mode = mode::qat, .number = 1, .warm_up = 5});
  bench.backward();
  CHECK(bench.state[0] == 9);
  CHECK(bench.dstate == std::vector<double>{0, 0});
}

TEST_CASE("pact: in the warm-up alpha is the mean of what the data gives") {
  Pact bench(FakeQuantizePACT{.bits = 2}, {2});
  double sum = 0;
  for (uint64_t n = 0; n < 3; ++n) {
    bench.x = {-1, 2.0 + 3.0 * static_cast<double>(n)};
    bench.forward_step({.mode = mode::qat, .number = n, .warm_up = 3});
    sum += bench.x[1];
    CHECK(bench.state[0] == doctest::Approx(sum / static_cast<double>(n + 1)).epsilon(1e-15));
  }
}
