// FakeQuantize against golden vectors and the independent formulas.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "qtape/ops/core/half.h"
#include "qtape/ops/core/random.h"
#include "qtape/ops/fake_quantize.h"
#include "qtape/tests/support/quantize_oracle.h"
#include "qtape/tests/support/quantizer_bench.h"

using namespace qtape;
using test::for_each_attribute;
using test::QuantizerBench;
using test::random_values;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
uint64_t bits_of(double x) { return std::bit_cast<uint64_t>(x); }

FakeQuantize fixed(FakeQuantize op) {
  op.scale_mode = Fixed{};
  return op;
}

/// y and ClippedIdentity's mask for each x at a fixed scale.
struct Golden {
  float x;
  float y;
  bool inside;
};

void check_golden(FakeQuantize op, float scale, const std::vector<Golden>& table) {
  op.ste = Ste::ClippedIdentity;
  QuantizerBench<float, float> bench(fixed(op), {static_cast<int64_t>(table.size())});
  bench.state = {scale};
  for (size_t i = 0; i < table.size(); ++i) {
    bench.x[i] = table[i].x;
    bench.dy[i] = 3.0f;
  }
  bench.forward(mode::qat);
  bench.backward();
  for (size_t i = 0; i < table.size(); ++i) {
    CAPTURE(table[i].x);
    if (std::isnan(table[i].y)) {
      CHECK(std::isnan(bench.y[i]));
    } else {
      CHECK(bits_of(bench.y[i]) == bits_of(table[i].y));
    }
    CHECK(bench.dx[i] == (table[i].inside ? 3.0f : 0.0f));
  }
}

/// Values on, next to and between half-grid points, and all the odd ones.
template <class T>
std::vector<T> probes(T scale, CodeLimits limits) {
  std::vector<T> x = {T(0),
                      T(-0.0),
                      std::numeric_limits<T>::infinity(),
                      -std::numeric_limits<T>::infinity(),
                      std::numeric_limits<T>::quiet_NaN(),
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::max()};
  const int32_t span = std::min(limits.q_max + 2, 40);
  for (int32_t q = -span; q <= span; ++q) {
    const T tie = (static_cast<T>(q) + T(0.5)) * scale;
    for (T v :
         {tie, std::nextafter(tie, T(1e30)), std::nextafter(tie, T(-1e30)), tie * T(1.3)}) {
      x.push_back(v);
    }
  }
  for (int32_t q : {limits.q_min, limits.q_max}) {
    const T end = static_cast<T>(q) * scale;
    for (T v : {end, std::nextafter(end, T(1e30)), std::nextafter(end, T(-1e30)),
                (static_cast<T>(q) + T(0.5)) * scale, (static_cast<T>(q) - T(0.5)) * scale}) {
      x.push_back(v);
    }
  }
  const Random random(9, 9);
  while (x.size() < 700) {
    const double u = 2 * random.uniform(x.size()) - 1;
    x.push_back(static_cast<T>(u * 1.2 * limits.q_max) * scale);
  }
  return x;
}

template <class T>
void check_against_oracle(const FakeQuantize& op, T scale) {
  const auto x = probes(scale, code_limits(op.bits, op.range));
  QuantizerBench<T, T> bench(fixed(op), {static_cast<int64_t>(x.size())});
  bench.state = {scale};
  bench.x = x;
  std::ranges::fill(bench.dy, T(1));
  bench.forward(mode::qat);
  bench.backward();
  int wrong_values = 0;
  int wrong_masks = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const T expected = test::oracle_fake(x[i], {scale, T(0)}, op);
    const bool same = std::isnan(expected) ? std::isnan(bench.y[i])
                                           : bits_of(bench.y[i]) == bits_of(expected);
    wrong_values += same ? 0 : 1;
    wrong_masks +=
        (bench.dx[i] == T(1)) == test::oracle_inside(x[i], {scale, T(0)}, fixed(op)) ? 0 : 1;
  }
  CAPTURE(op.bits);
  CAPTURE(static_cast<int>(op.range));
  CAPTURE(static_cast<int>(op.rounding));
  CAPTURE(static_cast<int>(op.division));
  CAPTURE(static_cast<int>(op.mask));
  CAPTURE(scale);
  CHECK(wrong_values == 0);
  CHECK(wrong_masks == 0);
}

}  // namespace

TEST_CASE("fake_quantize: golden vector of a narrow 3-bit range, ties to even") {
  check_golden({.bits = 3}, 0.5f,
               {{0.0f, 0.0f, true},
                {-0.0f, 0.0f, true},
                {0.25f, 0.0f, true},
                {-0.25f, 0.0f, true},
                {0.75f, 1.0f, true},
                {1.25f, 1.0f, true},
                {1.5f, 1.5f, true},
                {1.74f, 1.5f, true},
                {1.75f, 1.5f, false},
                {-1.5f, -1.5f, true},
                {-1.75f, -1.5f, false},
                {100.0f, 1.5f, false},
                {infinity, 1.5f, false},
                {-infinity, -1.5f, false},
                {not_a_number, not_a_number, false},
                {1e-45f, 0.0f, true},
                {-0.2f, 0.0f, true}});
}

TEST_CASE("fake_quantize: golden vector of a full 3-bit range, ties away from zero") {
  check_golden({.bits = 3, .range = CodeRange::Full, .rounding = Rounding::HalfAway}, 1.0f,
               {{0.5f, 1.0f, true},
                {-0.5f, -1.0f, true},
                {0.49999997f, 0.0f, true},
                {2.5f, 3.0f, true},
                {3.49f, 3.0f, true},
                {3.5f, 3.0f, false},
                {-3.5f, -4.0f, true},
                {-4.4f, -4.0f, true},
                {-4.5f, -4.0f, false}});
}

TEST_CASE("fake_quantize: golden vector of an unsigned 2-bit range, ties up") {
  check_golden({.bits = 2, .range = CodeRange::Unsigned, .rounding = Rounding::HalfUp}, 1.0f,
               {{0.5f, 1.0f, true},
                {1.5f, 2.0f, true},
                {-0.5f, 0.0f, true},
                {-0.51f, 0.0f, false},
                {3.4f, 3.0f, true},
                {3.5f, 3.0f, false},
                {0.49999997f, 0.0f, true}});
}

TEST_CASE("fake_quantize: golden vector of the value mask") {
  check_golden({.bits = 3, .mask = MaskRule::Value}, 0.5f,
               {{1.5f, 1.5f, true},
                {1.5000001f, 1.5f, false},
                {-1.5f, -1.5f, true},
                {-1.6f, -1.5f, false},
                {not_a_number, not_a_number, false},
                {0.0f, 0.0f, true}});
}

TEST_CASE("fake_quantize: f32 and f64 equal the formulas for every combination of attributes") {
  for_each_attribute([](const FakeQuantize& op) {
    for (double scale : {1.0, 0.1, 0.003, 17.0}) {
      check_against_oracle<float>(op, static_cast<float>(scale));
      check_against_oracle<double>(op, scale);
    }
  });
}

TEST_CASE("fake_quantize: f16 and bf16 compute in f32 and round once at the end") {
  const FakeQuantize op = fixed({.bits = 4});
  const auto x = random_values(1000, 3);
  QuantizerBench<Half, float> half(op, {1000});
  QuantizerBench<BHalf, float> bhalf(op, {1000});
  half.state = bhalf.state = {0.1f};
  for (size_t i = 0; i < x.size(); ++i) {
    half.x[i] = to_half(x[i]);
    bhalf.x[i] = to_bhalf(x[i]);
  }
  half.forward(mode::qat);
  bhalf.forward(mode::qat);
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(half.y[i] == to_half(test::oracle_fake(to_float(half.x[i]), {0.1f, 0.0f}, op)));
    CHECK(bhalf.y[i] == to_bhalf(test::oracle_fake(to_float(bhalf.x[i]), {0.1f, 0.0f}, op)));
  }
}

TEST_CASE("fake_quantize: per-batch scales of every axis equal the formula") {
  const Shape shape{3, 70, 5};
  for (auto denominator : {Denominator::QMax, Denominator::HalfSpan}) {
    for (int axis : {0, 1, 2, -1}) {
      const FakeQuantize op{.bits = 4,
                            .axis = axis,
                            .range = CodeRange::Full,
                            .denominator = denominator,
                            .ste = Ste::ClippedIdentity};
      QuantizerBench<float, float> bench(op, shape);
      bench.x = random_values(bench.x.size(), 4);
      std::ranges::fill(bench.dy, 1.0f);
      bench.forward(mode::qat);
      bench.backward();
      const AxisView view = axis_view(shape, axis < 0 ? axis + 3 : axis);
      std::vector<float> largest(static_cast<size_t>(view.channels));
      for (size_t i = 0; i < bench.x.size(); ++i) {
        const size_t c = i / static_cast<size_t>(view.inner) % largest.size();
        largest[c] = std::max(largest[c], std::fabs(bench.x[i]));
      }
      const auto scales = bench.scales();
      for (size_t c = 0; c < largest.size(); ++c) {
        CHECK(scales[c] == test::oracle_scale(largest[c], op));
      }
      for (size_t i = 0; i < bench.x.size(); ++i) {
        const size_t c = i / static_cast<size_t>(view.inner) % largest.size();
        CHECK(bits_of(bench.y[i]) ==
              bits_of(test::oracle_fake(bench.x[i], {scales[c], 0.0f}, op)));
      }
      CHECK(bench.dx == bench.dy);
    }
  }
}
