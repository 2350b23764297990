#include "qtape/ops/fake_quantize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "qtape/ops/core/half.h"
#include "qtape/ops/core/random.h"
#include "qtape/tests/support/quantize_oracle.h"
#include "qtape/tests/support/quantizer_bench.h"

using namespace qtape;
using test::QuantizerBench;

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

/// Every combination of the attributes that decide codes and masks.
template <class F>
void for_each_attribute(F f) {
  for (int bits : {2, 3, 4, 8, 16}) {
    for (auto range : {CodeRange::Narrow, CodeRange::Full, CodeRange::Unsigned}) {
      for (auto rounding : {Rounding::HalfEven, Rounding::HalfAway, Rounding::HalfUp}) {
        for (auto division : {Division::Exact, Division::Reciprocal}) {
          for (auto mask : {MaskRule::Code, MaskRule::Value}) {
            f(FakeQuantize{.bits = bits,
                           .range = range,
                           .rounding = rounding,
                           .division = division,
                           .ste = Ste::ClippedIdentity,
                           .mask = mask});
          }
        }
      }
    }
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
  const auto x = probes(scale, op.limits());
  QuantizerBench<T, T> bench(fixed(op), {static_cast<int64_t>(x.size())});
  bench.state = {scale};
  bench.x = x;
  std::ranges::fill(bench.dy, T(1));
  bench.forward(mode::qat);
  bench.backward();
  int wrong_values = 0;
  int wrong_masks = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const T expected = test::oracle_fake(x[i], scale, op);
    const bool same = std::isnan(expected) ? std::isnan(bench.y[i])
                                           : bits_of(bench.y[i]) == bits_of(expected);
    wrong_values += same ? 0 : 1;
    wrong_masks += (bench.dx[i] == T(1)) == test::oracle_inside(x[i], scale, fixed(op)) ? 0 : 1;
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

std::vector<float> random_values(size_t n, uint64_t seed) {
  const Random random(seed, 0);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(2 * random.uniform(i) - 1);
  return x;
}

std::string error_of(const FakeQuantize& op, const std::vector<TensorType>& inputs) {
  try {
    op.infer(inputs);
  } catch (const GraphError& error) {
    return error.what();
  }
  return "no error";
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
    CHECK(half.y[i] == to_half(test::oracle_fake(to_float(half.x[i]), 0.1f, op)));
    CHECK(bhalf.y[i] == to_bhalf(test::oracle_fake(to_float(bhalf.x[i]), 0.1f, op)));
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
        CHECK(bits_of(bench.y[i]) == bits_of(test::oracle_fake(bench.x[i], scales[c], op)));
      }
      CHECK(bench.dx == bench.dy);
    }
  }
}

TEST_CASE("fake_quantize: per-batch never clips the element that set the scale") {
  for_each_attribute([](FakeQuantize op) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      op.denominator = seed % 2 == 0 ? Denominator::QMax : Denominator::HalfSpan;
      QuantizerBench<float, float> bench(op, {97});
      bench.x = random_values(97, seed);
      const auto largest =
          std::ranges::max_element(bench.x, {}, [](float v) { return std::fabs(v); });
      if (op.range == CodeRange::Unsigned) *largest = std::fabs(*largest);
      std::ranges::fill(bench.dy, 1.0f);
      bench.forward(mode::qat);
      bench.backward();
      CHECK(bench.dx[static_cast<size_t>(largest - bench.x.begin())] == 1.0f);
    }
  });
}

TEST_CASE("fake_quantize: all-zero channels take the floor and stay zero") {
  QuantizerBench<float, float> bench(FakeQuantize{.axis = 0, .floor = 1e-5}, {2, 3});
  bench.x = {0, -0.0f, 0, 1, 2, 3};
  bench.forward(mode::qat);
  CHECK(bench.scales() == std::vector<float>{1e-5f, 3.0f / 127.0f});
  for (size_t i = 0; i < 3; ++i) CHECK(bits_of(bench.y[i]) == 0);
}

TEST_CASE("fake_quantize: empty tensors pass and leave the state alone") {
  for (const ScaleMode& scale_mode : {ScaleMode{PerBatch{}}, ScaleMode{EMA{}}}) {
    QuantizerBench<float, float> bench(FakeQuantize{.axis = 1, .scale_mode = scale_mode},
                                       {0, 3});
    bench.state = {0.5f, 0.0f, 2.0f};
    bench.forward(mode::qat);
    bench.backward();
    CHECK(bench.state == std::vector<float>{0.5f, 0.0f, 2.0f});
  }
}

TEST_CASE("fake_quantize: EMA blends scales, starts with the first one and uses the new one") {
  const FakeQuantize op{.scale_mode = EMA{.decay = 0.75}};
  QuantizerBench<float, float> bench(op, {2});
  bench.x = {1.0f, -2.54f};
  bench.forward(mode::qat);
  const float first = test::oracle_scale(2.54f, op);
  CHECK(bench.state[0] == first);
  CHECK(bench.scales()[0] == first);
  bench.x = {1.0f, 5.0f};
  bench.forward(mode::qat);
  const float second = 0.75f * first + 0.25f * test::oracle_scale(5.0f, op);
  CHECK(bench.state[0] == second);
  CHECK(bench.scales()[0] == second);
  CHECK(bench.y[1] == test::oracle_fake(5.0f, second, op));
}

TEST_CASE("fake_quantize: states move only while observing") {
  const FakeQuantize op{.scale_mode = EMA{.decay = 0.5}};
  QuantizerBench<float, float> bench(op, {2});
  bench.state = {0.25f};
  bench.x = {1.0f, 100.0f};
  bench.forward(mode::eval);
  bench.forward(mode::float_eval);
  bench.forward(mode::float_train);
  CHECK(bench.state[0] == 0.25f);
  bench.forward(mode::eval);
  CHECK(bench.y[1] == 127 * 0.25f);
  bench.status.observing = false;
  bench.forward(mode::qat);
  CHECK(bench.state[0] == 0.25f);
  bench.status.observing = true;
  bench.forward(mode::calibrate);
  CHECK(bench.state[0] == 0.125f + 0.5f * (100.0f / 127.0f));
  CHECK(bench.y == bench.x);
}

TEST_CASE("fake_quantize: an unobserved EMA in evaluation uses the data and writes nothing") {
  const FakeQuantize op{.scale_mode = EMA{}};
  QuantizerBench<float, float> bench(op, {2});
  bench.x = {1.0f, 2.0f};
  bench.forward(mode::eval);
  CHECK(bench.scales()[0] == test::oracle_scale(2.0f, op));
  CHECK(bench.state[0] == 0.0f);
}

TEST_CASE("fake_quantize: NaN and infinities never reach a state and are counted") {
  const FakeQuantize op{.axis = 0, .scale_mode = EMA{.decay = 0.5}};
  QuantizerBench<float, float> bench(op, {2, 3});
  bench.state = {1.0f, 1.0f};
  bench.x = {not_a_number, infinity, -infinity, 254.0f, not_a_number, 1.0f};
  bench.forward(mode::qat);
  CHECK(bench.state == std::vector<float>{1.0f, 1.5f});
  CHECK(bench.status.non_finite == 4);
  CHECK(std::isnan(bench.y[0]));
  CHECK(bench.y[1] == 127.0f);
  CHECK(bench.y[2] == -127.0f);
}

TEST_CASE("fake_quantize: the mask uses the scale of forward, not of a state moved since") {
  FakeQuantize op{.bits = 3, .ste = Ste::ClippedIdentity, .scale_mode = EMA{.decay = 0.5}};
  QuantizerBench<float, float> bench(op, {3});
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

TEST_CASE("fake_quantize: gradients accumulate, and pass through where nothing was quantized") {
  for (Ste ste : {Ste::Identity, Ste::ClippedIdentity, Ste::HardTanh}) {
    QuantizerBench<float, float> bench(fixed({.bits = 2, .ste = ste}), {700});
    bench.state = {1.0f};
    bench.x = random_values(700, 1);
    for (float& x : bench.x) x *= 3;
    bench.dy = random_values(700, 2);
    bench.forward(mode::qat);
    bench.backward();
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
  QuantizerBench<float, float> bench(fixed({}), {2});
  bench.x = {1.0f, 2.0f};
  bench.forward(mode::qat);
  CHECK(bench.status.fault.text != nullptr);
  CHECK(bench.y == bench.x);
}

TEST_CASE("fake_quantize: the noise report is the mean squared difference") {
  const FakeQuantize op = fixed({.bits = 4, .axis = 1});
  QuantizerBench<float, float> bench(op, {50, 3});
  bench.state = {0.1f, 0.2f, 0.3f};
  bench.x = random_values(150, 8);
  bench.status.measure_noise = true;
  bench.forward(mode::eval);
  double sum = 0;
  for (size_t i = 0; i < 150; ++i) {
    const double error = double{bench.y[i]} - double{bench.x[i]};
    sum += error * error;
  }
  CHECK(bench.status.noise == doctest::Approx(sum / 150).epsilon(1e-14));
}

TEST_CASE("fake_quantize: attributes and operands that cannot be are refused") {
  const TensorType x{DType::F32, {4, 6}};
  CHECK(error_of({.bits = 1}, {x}) == "bits must be in 2..16 for range Narrow, got 1");
  CHECK(error_of({.bits = 17}, {x}) == "bits must be in 2..16 for range Narrow, got 17");
  CHECK(error_of({.bits = 0, .range = CodeRange::Unsigned}, {x}) ==
        "bits must be in 1..16 for range Unsigned, got 0");
  CHECK(error_of({.axis = 2}, {x}) == "axis 2 is out of range for rank 2");
  CHECK(error_of({.axis = -3}, {x}) == "axis -3 is out of range for rank 2");
  CHECK(error_of({.floor = 0}, {x}) == "floor must be a normal f32 above 0, got 0");
  CHECK(error_of({.scale_mode = EMA{.decay = 1}}, {x, {DType::F32, {1}}}) ==
        "decay must be in [0, 1), got 1");
  CHECK(error_of({.scale_mode = EMA{.decay = std::nan("")}}, {x, {DType::F32, {1}}}) ==
        "decay must be in [0, 1), got nan");
  CHECK(error_of({.axis = 1, .scale_mode = Fixed{}}, {x, {DType::F32, {4}}}) ==
        "scale must be f32[6], got f32[4]");
  CHECK(error_of({}, {{DType::S32, {4}}}) == "expected f32, f64, f16 or bf16, got s32");
}
