// FakeQuantize against golden vectors, and its scales against independent formulas. See
// quantize_test.cpp for its values and masks with all attributes.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "qtape/engine/print.h"
#include "qtape/ops/fake_quantize.h"
#include "qtape/tests/support/first_difference.h"
#include "qtape/tests/support/quantize_oracle.h"
#include "qtape/tests/support/quantizer_bench.h"

using namespace qtape;
using test::check_calls;
using test::FirstDifference;
using test::QuantizerBench;
using test::random_floats;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

FakeQuantize fixed(const FakeQuantize& op) {
  return op.with(&FakeQuantize::scale_mode, Fixed{});
}

/// Checks values, and dx for dy = 3, at a fixed scale.
void check_golden(const FakeQuantize& op, float scale, const test::Call<float>& call) {
  QuantizerBench<float, float> bench(fixed(op).with(&FakeQuantize::ste, Ste::ClippedIdentity),
                                     {std::ssize(call.x)});
  bench.state = {scale};
  std::ranges::fill(bench.dy, 3.0f);
  check_calls(bench, {call});
}

/// One observed call of a quantizer whose scales are computed from the data.
void check_granularity(const FakeQuantize& op, const Shape& shape) {
  INFO(to_string(op), " of ", to_string(shape));
  for (int threads : {1, 3}) {
    QuantizerBench<float, float> bench(op, shape, threads);
    bench.x = random_floats(bench.x.size(), 4);
    for (size_t i = 0; i < bench.x.size(); i += 3) bench.x[i] *= 0.1f;
    std::ranges::fill(bench.dy, 1.0f);
    bench.train();
    std::vector<ValueRange<float>> ranges(bench.scales().size());
    for (size_t i = 0; i < bench.x.size(); ++i) {
      ranges[test::oracle_channel(i, shape, op)].merge({bench.x[i], bench.x[i]});
    }
    std::vector<QParams<float>> qparams;
    FirstDifference scales, results;
    for (const auto& range : ranges) {
      const QParams<float> got = bench.qparams(std::ssize(qparams));
      qparams.push_back(test::oracle_qparams(range.min, range.max, op));
      scales.compare(got.scale, qparams.back().scale, "scale");
      scales.compare(got.zero_point, qparams.back().zero_point, "zero point");
    }
    CHECK(scales.text() == "");
    for (size_t i = 0; i < bench.x.size(); ++i) {
      const auto& q = qparams[test::oracle_channel(i, shape, op)];
      const bool inside = op.ste == Ste::Identity || test::oracle_inside(bench.x[i], q, op);
      results.compare(bench.y[i], test::oracle_fake(bench.x[i], q, op), "y");
      results.compare(bench.dx[i], inside ? 1.0f : 0.0f, "dx");
    }
    CHECK(results.text() == "");
  }
}

}  // namespace

TEST_CASE("fake_quantize: golden vectors of ranges, roundings and the value mask") {
  check_golden({.bits = 3}, 0.5f,
               {.x = {0.0f, -0.0f, 0.25f, -0.25f, 0.75f, 1.25f, 1.5f, 1.74f, 1.75f, -1.5f,
                      -1.75f, 100.0f, infinity, -infinity, not_a_number, 1e-45f, -0.2f},
                .y = {0.0f, 0.0f, 0.0f, 0.0f, 1.0f, 1.0f, 1.5f, 1.5f, 1.5f, -1.5f, -1.5f, 1.5f,
                      1.5f, -1.5f, not_a_number, 0.0f, 0.0f},
                .dx = {3, 3, 3, 3, 3, 3, 3, 3, 0, 3, 0, 0, 0, 0, 0, 3, 3}});
  check_golden({.bits = 3, .range = CodeRange::Full, .rounding = Rounding::HalfAway}, 1.0f,
               {.x = {0.5f, -0.5f, 0.49999997f, 2.5f, 3.49f, 3.5f, -3.5f, -4.4f, -4.5f},
                .y = {1.0f, -1.0f, 0.0f, 3.0f, 3.0f, 3.0f, -4.0f, -4.0f, -4.0f},
                .dx = {3, 3, 3, 3, 3, 0, 3, 3, 0}});
  check_golden({.bits = 2, .range = CodeRange::Unsigned, .rounding = Rounding::HalfUp}, 1.0f,
               {.x = {0.5f, 1.5f, -0.5f, -0.51f, 3.4f, 3.5f, 0.49999997f},
                .y = {1.0f, 2.0f, 0.0f, 0.0f, 3.0f, 3.0f, 0.0f},
                .dx = {3, 3, 3, 0, 3, 0, 3}});
  check_golden({.bits = 3, .mask = MaskRule::Value}, 0.5f,
               {.x = {1.5f, 1.5000001f, -1.5f, -1.6f, not_a_number, 0.0f},
                .y = {1.5f, 1.5f, -1.5f, -1.5f, not_a_number, 0.0f},
                .dx = {3, 0, 3, 0, 0, 3}});
}

TEST_CASE("fake_quantize: golden vector of an affine unsigned 2-bit range") {
  const FakeQuantize op{.bits = 2,
                        .range = CodeRange::Unsigned,
                        .scheme = Scheme::Affine,
                        .ste = Ste::ClippedIdentity,
                        .scale_mode = EMA{.decay = 0.5, .track = Track::Range}};
  QuantizerBench<float, float> bench(op, {6});
  bench.dy = {1, 1, 1, 1, 1, 1};
  const float step = 4.0f / 3;
  // Half-way to [-3, 2]: [-2, 2] has steps of 4/3, and 0 has code 2 (1.5 rounded to even).
  check_calls<float>(bench, {{.x = {-1.0f, 2.0f, 0.49f, 0.5f, 1.51f, -0.0f},
                              .state = {-1, 2},
                              .scales = {1},
                              .zero_points = {1},
                              .y = {-1, 2, 0, 0, 2, 0},
                              .dx = {1, 1, 1, 1, 1, 1}},
                             {.x = {-3.0f, 2.0f, 0, 0, 0, 0}},
                             {.mode = mode::eval,
                              .x = {-3.0f, 2.0f, 2.1f, 0.0f, 1.9f, 1e9f},
                              .state = {-2, 2},
                              .scales = {step},
                              .zero_points = {2},
                              .y = {-2 * step, step, step, 0, step, step},
                              .dx = {1, 0, 0, 1, 1, 0}}});
}

TEST_CASE("fake_quantize: scales and zero points of every granularity equal the formula") {
  const Shape shape{4, 70, 6};
  const std::vector<Granularity> granularities = {
      {}, {0, {}}, {1, {}}, {2, {}}, {-2, 7}, {1, 1}, {2, 3}, {0, 2}, {2, 6}, {1, 70}, {2, 1}};
  for (const Granularity& c : granularities) {
    for (auto scheme : {Scheme::Symmetric, Scheme::Affine}) {
      for (const ScaleMode& mode :
           {ScaleMode{PerBatch{}}, ScaleMode{EMA{.track = Track::Range}}}) {
        check_granularity({.bits = 4,
                           .axis = c.axis,
                           .group_size = c.group_size,
                           .scheme = scheme,
                           .ste = Ste::ClippedIdentity,
                           .scale_mode = mode},
                          shape);
      }
    }
  }
  // Long and short segments, whole and partial chunks, and columns longer than a chunk.
  for (const Shape& large : {Shape{3, 40000}, Shape{64, 48}, Shape{2, 20000, 3}, Shape{70, 10},
                             Shape{5, 7, 16}, Shape{2, 40000}}) {
    for (int axis : {0, 1, -1}) {
      check_granularity({.axis = axis, .scheme = Scheme::Affine}, large);
      check_granularity({.axis = axis, .ste = Ste::ClippedIdentity, .scale_mode = EMA{}},
                        large);
    }
  }
  check_granularity({.axis = 1, .group_size = 16, .scale_mode = EMA{}}, {64, 48});
  for (auto scheme : {Scheme::Symmetric, Scheme::Affine}) {
    for (const ScaleMode& mode :
         {ScaleMode{PerBatch{}}, ScaleMode{EMA{}}, ScaleMode{EMA{.track = Track::Range}}}) {
      FakeQuantize op{.axis = 0, .scheme = scheme, .power_of_two = true, .scale_mode = mode};
      if (scheme == Scheme::Affine && std::holds_alternative<EMA>(mode)) {
        op.scale_mode = EMA{.track = Track::Range};
      }
      check_granularity(op, {64, 48});
      check_granularity(op.with(&FakeQuantize::bits, 4), shape);
    }
  }
  check_granularity({.axis = 1, .group_size = 20000, .scale_mode = EMA{}}, {2, 40000});
  check_granularity({.axis = 1, .group_size = 32, .scheme = Scheme::Affine}, {300, 96});
}
