// FakeQuantize: running averages and scales in states, compared with their formulas.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "qtape/ops/fake_quantize.h"
#include "qtape/tests/support/quantize_oracle.h"
#include "qtape/tests/support/quantizer_bench.h"

using namespace qtape;
using test::check_calls;
using test::QuantizerBench;
using test::random_floats;
using Bench = QuantizerBench<float, float>;

TEST_CASE("fake_quantize: the two forms of an average equal their formulas for 1,000 steps") {
  const auto check = []<class T>(T, double decay, std::optional<double> weight) {
    const FakeQuantize op{.scale_mode =
                              EMA{.decay = decay, .track = Track::Range, .weight = weight}};
    QuantizerBench<T, T> bench(op, {3});
    volatile T low = 0, high = 0;
    test::FirstDifference found;
    const T old_weight = static_cast<T>(decay);
    const T one_less = T(1) - old_weight;
    const auto average = [&](T old, T current) {
      // volatile, so that each operation is rounded.
      if (weight) {
        volatile T step = current - old;
        step = static_cast<T>(*weight) * step;
        return old + step;
      }
      volatile T kept = old_weight * old;
      volatile T added = one_less * current;
      return kept + added;
    };
    for (uint64_t n = 0; n < 1000; ++n) {
      const auto u = random_floats(2, n);
      bench.x = {static_cast<T>(u[0]) - T(1.3), T(0), static_cast<T>(u[1]) + T(1.1)};
      bench.forward_step({.mode = mode::qat, .number = n});
      low = n == 0 ? bench.x[0] : average(low, bench.x[0]);
      high = n == 0 ? bench.x[2] : average(high, bench.x[2]);
      found.compare<T>(bench.state[0], low, "low");
      found.compare<T>(bench.state[1], high, "high");
    }
    return found.text();
  };
  for (auto [decay, weight] : {std::pair{0.99, 0.01}, std::pair{0.7, 0.3}}) {
    CHECK(check(0.0f, decay, weight) == "");
    CHECK(check(0.0, decay, weight) == "");
    CHECK(check(0.0f, decay, std::nullopt) == "");
    CHECK(check(0.0, decay, std::nullopt) == "");
  }
}

TEST_CASE("fake_quantize: an average by difference stays finite where the difference is not") {
  const FakeQuantize op{.scale_mode = EMA{.track = Track::Range, .weight = 0.01}};
  Bench bench(op, {2});
  bench.state = {-3e38f, 3e38f};
  check_calls<float>(bench,
                     {{.x = {3e38f, 3e38f}, .state = {0.99f * -3e38f + 0.01f * 3e38f, 3e38f}}});
  for (float y : bench.y) CHECK(std::isfinite(y));
}

TEST_CASE("fake_quantize: a scale in a state acts as the floor where it is below") {
  const auto scale_in_use = [](const FakeQuantize& op, float state, Mode mode) {
    Bench bench(op, {2, 40});
    std::ranges::fill(bench.state, state);
    bench.x = random_floats(80, 4);
    bench.forward(mode);
    const TensorType x{DType::F32, {2, 40}};
    std::byte* values[] = {reinterpret_cast<std::byte*>(bench.state.data())};
    CHECK(op.load(x, values)[0].scale ==
          std::max(bench.state[0], static_cast<float>(op.floor)));
    const QParams<float> q{bench.scales()[0], 0};
    for (size_t i = 0; i < 40; ++i) CHECK(bench.y[i] == test::oracle_fake(bench.x[i], q, op));
    return bench.scales()[0];
  };
  for (std::optional<int> axis : {std::optional<int>(), std::optional(0), std::optional(1)}) {
    for (double floor : {1e-12, 0x1p-7}) {
      const auto least = static_cast<float>(floor);
      const FakeQuantize op{.axis = axis, .floor = floor, .scale_mode = Fixed{}};
      CHECK(scale_in_use(op, 1e-15f, mode::eval) == least);
      CHECK(scale_in_use(op, std::nextafter(least, 1.0f), mode::qat) > least);
      // The weight of new data is negligible here, so the state stays below the floor.
      FakeQuantize average = op;
      average.scale_mode = EMA{.decay = 1 - 0x1p-40};
      CHECK(scale_in_use(average, 1e-15f, mode::eval) == least);
      CHECK(scale_in_use(average, 1e-15f, mode::qat) == least);
    }
  }
  QuantizerBench<double, double> wide({.floor = 1e-12, .scale_mode = Fixed{}}, {1});
  wide.state = {1e-15};
  wide.x = {1.0};
  wide.forward(mode::eval);
  CHECK(wide.scales()[0] == 1e-12);
}

TEST_CASE("fake_quantize: scales that are powers of two are those of the average, rounded up") {
  Bench bench({.bits = 4, .power_of_two = true, .scale_mode = EMA{.decay = 0.5}}, {2});
  check_calls<float>(
      bench, {{.x = {7 * 0.375f, 0.3f}, .state = {0.375f}, .scales = {0.5f}, .y = {2.5f, 0.5f}},
              {.x = {7 * 0.75f, 0}, .state = {0.5625f}, .scales = {1}},
              {.x = {7 * 0.4375f, 0}, .state = {0.5f}, .scales = {0.5f}},
              {.mode = mode::eval, .scales = {0.5f}}});
}

TEST_CASE("fake_quantize: a state that saw nothing but zeros is a grid of -1..1") {
  const float mark = std::numeric_limits<float>::min();
  for (const Track track : {Track::Range, Track::Scale}) {
    CAPTURE(static_cast<int>(track));
    const FakeQuantize op{.bits = 4, .scale_mode = EMA{.decay = 0.5, .track = track}};
    const TensorType x{DType::F32, {2}};
    Bench bench(op, {2});
    std::byte* values[] = {reinterpret_cast<std::byte*>(bench.state.data())};
    const auto scale = [&] { return op.load(x, values)[0].scale; };
    CHECK(scale() == 0);  // never observed
    for (int step = 0; step < 3; ++step) {
      check_calls<float>(bench, {{.x = {0, -0.0f}, .scales = {1 / 7.0f}}});
      CHECK(bench.state.back() == mark);
      CHECK(scale() == double{1 / 7.0f});
    }
    check_calls<float>(bench, {{.mode = mode::eval, .x = {5, -5}, .y = {1, -1}},
                               {.scales = {5 / 7.0f}}});  // the average starts here
    bench.x = {0, 0};  // zeros count after another value was observed
    bench.forward(mode::qat);
    CHECK(bench.scales()[0] == doctest::Approx(2.5 / 7));
    op.store(x, std::vector<ValueRange<double>>{{0, 0}}, values);
    CHECK(scale() == double{1 / 7.0f});
  }
}

TEST_CASE("fake_quantize: grids of zeros alone leave room for a bias, affine and delayed") {
  const FakeQuantize affine{.range = CodeRange::Unsigned,
                            .scheme = Scheme::Affine,
                            .scale_mode = EMA{.track = Track::Range, .delayed = true}};
  Bench bench(affine, {3});
  const QParams<float> q = test::oracle_qparams(-1.0f, 1.0f, affine);
  const test::Call<float> zeros{
      .x = {0, 0, 0}, .scales = {q.scale}, .zero_points = {q.zero_point}, .y = {0, 0, 0}};
  check_calls(bench, {zeros, zeros});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  bench.state = {0, 0};
  // Zeros together with values that are not finite are no observation.
  check_calls<float>(bench, {{.x = {0, nan, 0}, .state = {0, 0}}});
}

TEST_CASE("fake_quantize: powers of two that would overflow stay below the scale") {
  for (const Scheme scheme : {Scheme::Symmetric, Scheme::Affine}) {
    Bench bench({.scheme = scheme, .power_of_two = true}, {2});
    check_calls<float>(bench, {{.x = {-3.4e38f, 3.4e38f}, .scales = {0x1p120f}}});
    for (float y : bench.y) CHECK(std::isfinite(y));
  }
}
