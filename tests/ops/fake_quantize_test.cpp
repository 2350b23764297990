// FakeQuantize: scales, states, gradients, faults and errors.
#include "qtape/ops/fake_quantize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "qtape/core/half.h"
#include "qtape/core/random.h"
#include "qtape/tests/support/quantize_oracle.h"
#include "qtape/tests/support/quantizer_bench.h"

using namespace qtape;
using test::check_calls;
using test::for_each_attribute;
using test::QuantizerBench;
using test::random_floats;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

using Bench = QuantizerBench<float, float>;

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

FakeQuantize fixed(const FakeQuantize& op) {
  return op.with(&FakeQuantize::scale_mode, Fixed{});
}

}  // namespace

TEST_CASE("fake_quantize: per-batch clips no element that set the scale, affine none at all") {
  for_each_attribute([](FakeQuantize op) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      op.denominator = seed % 2 == 0 ? Denominator::QMax : Denominator::HalfSpan;
      op.scheme = seed < 40 ? Scheme::Symmetric : Scheme::Affine;
      Bench bench(op, {97});
      bench.x = random_floats(97, seed);
      const auto largest =
          std::ranges::max_element(bench.x, {}, [](float v) { return std::fabs(v); });
      if (op.range == CodeRange::Unsigned && seed < 40) *largest = std::fabs(*largest);
      std::ranges::fill(bench.dy, 1.0f);
      bench.train();
      CHECK(bench.dx[static_cast<size_t>(largest - bench.x.begin())] == 1.0f);
      if (op.scheme == Scheme::Affine) CHECK(bench.dx == bench.dy);
    }
  });
}

TEST_CASE("fake_quantize: a constant, and a range as wide as the type, give usable scales") {
  for (float c : {0.0f, 1e-30f, -5.0f, 3e38f}) {
    const FakeQuantize op{.range = CodeRange::Full, .scheme = Scheme::Affine};
    Bench bench(op, {4});
    std::ranges::fill(bench.x, c);
    bench.forward(mode::qat);
    CHECK(std::fabs(bench.y[0] - c) <= 1.01f * bench.scales()[0]);
    CHECK(std::isfinite(bench.y[0]));
    bench.x = {c, -c, 1.0f, 3e38f};
    bench.forward(mode::qat);
    CHECK(std::isfinite(bench.scales()[0]));
    CHECK(std::isfinite(bench.y[3]));
    CHECK(bench.qparams(0).zero_point >= -128);
    CHECK(bench.qparams(0).zero_point <= 127);
  }
  // If max - min overflows, each end is divided separately.
  Bench bench({.range = CodeRange::Unsigned, .scheme = Scheme::Affine}, {2});
  bench.x = {-2e38f, 3e38f};
  bench.forward(mode::qat);
  CHECK(bench.qparams(0) == QParams<float>{3e38f / 255 + 2e38f / 255, 102});
}

TEST_CASE(
    "fake_quantize: in the warm-up all steps weigh the same, in both forms of an average") {
  for (const EMA& ema :
       {EMA{.decay = 0.5}, EMA{.decay = 0.5, .track = Track::Range}, EMA{.weight = 0.01}}) {
    Bench bench({.bits = 2, .scale_mode = ema}, {2});
    float expected = 0;
    for (uint64_t n = 0; n < 4; ++n) {
      const auto current = static_cast<float>(n + 1);
      bench.x = {current, -0.5f};
      bench.forward_step({.mode = mode::qat, .number = n, .warm_up = 3});
      const auto count = static_cast<double>(n + 1);
      const auto decay = static_cast<float>(n < 3 ? (count - 1) / count : 0.5);
      const float weight = n < 3 ? 1.0f / current : 0.01f;
      const float moved = ema.weight ? expected + weight * (current - expected)
                                     : decay * expected + (1 - decay) * current;
      expected = n == 0 ? current : moved;
      CHECK(bench.scales()[0] == expected);
    }
    CHECK(expected == doctest::Approx(ema.weight ? 2 + 0.01 * 2 : 0.5 * 2 + 0.5 * 4));
  }
}

TEST_CASE("fake_quantize: all-zero channels have the range [-1, 1] and stay zero") {
  Bench bench({.axis = 0, .floor = 1e-5}, {2, 3});
  check_calls<float>(bench,
                     {{.x = {0, -0.0f, 0, 1, 2, 3}, .scales = {1.0f / 127.0f, 3.0f / 127.0f}}});
  for (size_t i = 0; i < 3; ++i) CHECK(bits_of(bench.y[i]) == 0);
}

TEST_CASE("fake_quantize: empty tensors pass and leave the state alone") {
  for (const ScaleMode& scale_mode : {ScaleMode{PerBatch{}}, ScaleMode{EMA{}}}) {
    Bench bench({.axis = 1, .scale_mode = scale_mode}, {0, 3});
    bench.state = {0.5f, 0.0f, 2.0f};
    bench.train();
    CHECK(bench.state == std::vector<float>{0.5f, 0.0f, 2.0f});
  }
}

TEST_CASE("fake_quantize: EMA blends scales, starts with the first one and uses the new one") {
  const FakeQuantize op{.scale_mode = EMA{.decay = 0.75}};
  Bench bench(op, {2});
  const float first = test::oracle_scale(2.54f, op);
  const float second = 0.75f * first + 0.25f * test::oracle_scale(5.0f, op);
  check_calls<float>(bench, {{.x = {1.0f, -2.54f}, .state = {first}, .scales = {first}},
                             {.x = {1.0f, 5.0f}, .state = {second}, .scales = {second}}});
  CHECK(bench.y[1] == test::oracle_fake(5.0f, {second, 0.0f}, op));
}

TEST_CASE("fake_quantize: states move only while observing") {
  Bench bench({.scale_mode = EMA{.decay = 0.5}}, {2});
  bench.state = {0.25f};
  check_calls<float>(bench, {{.mode = mode::eval, .x = {1.0f, 100.0f}},
                             {.mode = mode::float_eval},
                             {.mode = mode::float_train, .state = {0.25f}},
                             {.mode = mode::eval, .y = {1.0f, 127 * 0.25f}}});
  bench.status().observing = false;
  check_calls<float>(bench, {{.state = {0.25f}}});
  bench.status().observing = true;
  check_calls<float>(bench, {{.mode = mode::observe,
                              .state = {0.125f + 0.5f * (100.0f / 127.0f)},
                              .y = {1.0f, 100.0f}}});
}

TEST_CASE("fake_quantize: an unobserved EMA in evaluation uses the data and writes nothing") {
  const FakeQuantize op{.scale_mode = EMA{}};
  Bench bench(op, {2});
  const float scale = test::oracle_scale(2.0f, op);
  check_calls<float>(bench,
                     {{.mode = mode::eval, .x = {1, 2}, .state = {0}, .scales = {scale}}});
}

TEST_CASE("fake_quantize: a damaged state counts as not observed") {
  const FakeQuantize op{.scale_mode = EMA{}};
  for (float damaged : {infinity, not_a_number, -1.0f, 1e-45f}) {
    Bench bench(op, {2});
    bench.state = {damaged};
    check_calls<float>(bench, {{.x = {1, 2}, .state = {test::oracle_scale(2.0f, op)}}});
  }
}

TEST_CASE("fake_quantize: NaN and infinities never reach a state and are counted") {
  Bench bench({.axis = 0, .scale_mode = EMA{.decay = 0.5}}, {2, 3});
  bench.state = {1, 1};
  check_calls<float>(bench, {{.x = {not_a_number, infinity, -infinity, 254, not_a_number, 1},
                              .state = {1, 1.5f},
                              .y = {not_a_number, 127, -127, 1.5f * 127, not_a_number, 1.5f}}});
  CHECK(bench.status().non_finite == 4);
}

TEST_CASE("fake_quantize: the mask uses the scale of forward, not of a state moved since") {
  Bench bench({.bits = 3, .ste = Ste::ClippedIdentity, .scale_mode = EMA{.decay = 0.5}}, {3});
  bench.state = {1.0f};
  bench.x = {3.0f, 2.4f, 0.0f};
  bench.dy = {1.0f, 1.0f, 1.0f};
  bench.forward(mode::qat);
  bench.state = {0.1f};
  bench.backward();
  CHECK(bench.dx == bench.dy);
}

TEST_CASE("fake_quantize: surrogate gradients equal their formulas at the scale of forward") {
  for (Ste ste : {Ste::Tanh, Ste::HardTanh, Ste::TanhRange}) {
    const FakeQuantize op = fixed({.bits = 3, .ste = ste});
    QuantizerBench<double, double> bench(op, {101});
    bench.state = {0.37};
    for (size_t i = 0; i < 101; ++i) {
      bench.x[i] = -2.0 + 0.04 * static_cast<double>(i);
      bench.dy[i] = 1.5;
    }
    bench.forward(mode::qat);
    bench.state = {5.0};
    bench.backward();
    for (size_t i = 0; i < 101; ++i) {
      const double unit = bench.x[i] / 0.37;
      const double share = bench.x[i] / (3 * 0.37);
      const double expected = ste == Ste::Tanh ? 1.5 * (1 - std::pow(std::tanh(unit), 2))
                              : ste == Ste::TanhRange
                                  ? 1.5 * (1 - std::pow(std::tanh(share), 2))
                                  : 1.5 * std::max(0.0, 1 - std::fabs(share));
      CHECK(bench.dx[i] == doctest::Approx(expected).epsilon(1e-13));
    }
  }
}

TEST_CASE("fake_quantize: NaN has no gradient under the surrogates, whatever dy is") {
  for (Ste ste : {Ste::Tanh, Ste::HardTanh, Ste::TanhRange}) {
    for (auto scheme : {Scheme::Symmetric, Scheme::Affine}) {
      for (const ScaleMode& scale_mode : {ScaleMode{PerBatch{}}, ScaleMode{Fixed{}}}) {
        const FakeQuantize op{.scheme = scheme, .ste = ste, .scale_mode = scale_mode};
        Bench bench(op, {4});
        QuantizerBench<Half, float> half(op, {4});
        bench.state = half.state = {0.5f};
        bench.x = {not_a_number, 0.0f, -not_a_number, 1.0f};
        bench.dy = {1.0f, 2.0f, infinity, 3.0f};
        for (size_t i = 0; i < 4; ++i) {
          half.x[i] = to_half(bench.x[i]);
          half.dy[i] = to_half(bench.dy[i]);
        }
        bench.forward(mode::qat);
        half.forward(mode::qat);
        bench.backward();
        half.backward();
        for (size_t i : {size_t{0}, size_t{2}}) {
          CHECK(bits_of(bench.dx[i]) == 0);
          CHECK(bits_of(to_float(half.dx[i])) == 0);
        }
        CHECK(bench.dx[1] == 2.0f);
        bench.dx = {7.0f, 0.0f, -7.0f, 0.0f};
        bench.backward(true);
        CHECK(bench.dx[0] == 7.0f);
        CHECK(bench.dx[2] == -7.0f);
      }
    }
  }
}

TEST_CASE("fake_quantize: gradients accumulate, and pass through where nothing was quantized") {
  for (Ste ste : {Ste::Identity, Ste::ClippedIdentity, Ste::HardTanh}) {
    Bench bench(fixed({.bits = 2, .ste = ste}), {700});
    bench.state = {1.0f};
    bench.x = random_floats(700, 1);
    for (float& x : bench.x) x *= 3;
    bench.dy = random_floats(700, 2);
    bench.train();
    const auto once = bench.dx;
    bench.backward(true);
    for (size_t i = 0; i < 700; ++i) CHECK(bench.dx[i] == once[i] + once[i]);
    bench.forward(mode::float_train);
    CHECK(bench.y == bench.x);
    bench.backward();
    CHECK(bench.dx == bench.dy);
  }
}

TEST_CASE("fake_quantize: a Fixed scale that was never set is a fault, and x passes") {
  Bench bench(fixed({}), {2});
  bench.x = {1.0f, 2.0f};
  bench.forward(mode::qat);
  CHECK(bench.status().fault.text != nullptr);
  CHECK(bench.y == bench.x);
}

TEST_CASE("fake_quantize: delayed, a channel without a state changes nothing for the others") {
  for (const Track track : {Track::Scale, Track::Range}) {
    const FakeQuantize op{.axis = 0,
                          .scale_mode = EMA{.decay = 0, .track = track, .delayed = true}};
    for (const int64_t wide : {1, 40}) {
      CAPTURE(wide);
      Bench bench(op, {2, wide});
      const auto run = [&](float first, float second) {
        std::fill_n(bench.x.begin(), wide, first);
        std::fill_n(bench.x.begin() + wide, wide, second);
        bench.forward(mode::qat);
        return bench.scales();
      };
      CHECK(run(1.27f, 0)[0] == 1.27f / 127);
      CHECK(run(2.54f, 0)[0] == 1.27f / 127);
      CHECK(run(5.08f, 0)[0] == 2.54f / 127);
      // The other channel uses its first observation other than zeros, and is delayed
      // afterwards.
      CHECK(run(1.27f, 12.7f) == std::vector<float>{5.08f / 127, 12.7f / 127});
      CHECK(run(1.27f, 1.27f) == std::vector<float>{1.27f / 127, 12.7f / 127});
    }
  }
}

TEST_CASE(
    "fake_quantize: delayed, a call quantizes by the state before it and moves it alike") {
  std::vector<FakeQuantize> ops;
  for (Track track : {Track::Scale, Track::Range}) {
    for (Scheme scheme : {Scheme::Symmetric, Scheme::Affine}) {
      if (scheme == Scheme::Affine && track == Track::Scale) continue;
      FakeQuantize op{.scheme = scheme,
                      .ste = Ste::ClippedIdentity,
                      .scale_mode = EMA{.decay = 0.75, .track = track}};
      ops.push_back(op);
      for (int axis : {0, 1}) ops.push_back(op.with(&FakeQuantize::axis, axis));
      ops.push_back(op.with(&FakeQuantize::axis, 1).with(&FakeQuantize::group_size, 4));
    }
  }
  for (const FakeQuantize& usual : ops) {
    EMA ema = std::get<EMA>(usual.scale_mode);
    ema.delayed = true;
    const FakeQuantize delayed = usual.with(&FakeQuantize::scale_mode, ema);
    for (int threads : {1, 3}) {
      const Shape shape = {70, 120};
      Bench a(delayed, shape, threads);
      Bench b(usual, shape, 1);
      Bench before(usual, shape, 1);
      for (uint64_t step = 0; step < 4; ++step) {
        a.x = b.x = before.x = random_floats(static_cast<size_t>(shape.elements()), 20 + step);
        for (float& v : a.x) v *= static_cast<float>(step + 1);
        b.x = before.x = a.x;
        std::ranges::fill(a.dy, 1.0f);
        std::ranges::fill(before.dy, 1.0f);
        before.state = a.state;
        b.forward(mode::qat);
        before.forward(step == 0 ? mode::qat : mode::eval);
        before.backward();
        a.train();
        CHECK(a.y == before.y);
        CHECK(a.dx == before.dx);
        CHECK(a.scales() == before.scales());
        CHECK(a.state == b.state);
      }
      // A call that does not observe uses the state and does not change it.
      b.state = a.state;
      a.forward(mode::eval);
      b.forward(mode::eval);
      CHECK(a.y == b.y);
      CHECK(a.state == b.state);
    }
  }
}
