#include "qtape/core/math.h"

#include <doctest/doctest.h>

#include <cmath>

#include "qtape/core/half.h"
#include "qtape/core/random.h"

using namespace qtape;

namespace {

/// Returns the largest error over random arguments in [low, high], in units `unit(truth)`.
template <class F, class G, class U>
double worst(F ours, G exact, double low, double high, U unit) {
  const Random random(1, 2);
  double worst = 0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const double x = low + (high - low) * random.uniform(i);
    const long double truth = exact(static_cast<long double>(x));
    const auto error = static_cast<double>(ours(x) - truth);
    worst = std::max(worst, std::fabs(error) / unit(truth));
  }
  return worst;
}

/// Returns the largest error in units in the last place.
template <class F, class G>
double worst_ulp(F ours, G exact, double low, double high) {
  return worst(ours, exact, low, high, [](long double truth) {
    const double size = std::fabs(static_cast<double>(truth));
    return std::nextafter(size, 1e308) - size;
  });
}

template <class F, class G>
double worst_error(F ours, G exact, double low, double high) {
  return worst(ours, exact, low, high, [](long double) { return 1.0; });
}

}  // namespace

TEST_CASE("math: errors stay within the documented units in the last place") {
  CHECK(worst_ulp(
            math::exp, [](long double x) { return std::exp(x); }, -700, 700) <= 1);
  CHECK(worst_ulp(
            math::log, [](long double x) { return std::log(x); }, 1e-3, 10) <= 1);
  CHECK(worst_ulp(
            math::tanh, [](long double x) { return std::tanh(x); }, -20, 20) <= 3);
  CHECK(worst_ulp(
            math::expm1, [](long double x) { return std::expm1(x); }, -20, 20) <= 4);
  CHECK(worst_ulp(
            math::log1p, [](long double x) { return std::log1p(x); }, 0, 2) <= 3);
  CHECK(worst_ulp(
            math::erf, [](long double x) { return std::erf(x); }, -7, 7) <= 2);
  CHECK(worst_ulp(
            math::atan, [](long double x) { return std::atan(x); }, -9, 9) <= 3);
  CHECK(worst_ulp(
            math::atan, [](long double x) { return std::atan(x); }, 0.41, 0.56) <= 3);
  const auto sine = [](long double x) { return std::sin(x); };
  const auto cosine = [](long double x) { return std::cos(x); };
  for (const double end : {1.0, 9.0, 0x1p20}) {
    CAPTURE(end);
    CHECK(worst_error(math::sin, sine, -end, end) <= 0x1p-52);
    CHECK(worst_error(math::cos, cosine, -end, end) <= 0x1p-52);
  }
  CHECK(worst_error(math::sin, sine, -math::sin_end, math::sin_end) <= 0x1p-25);
  CHECK(worst_error(math::cos, cosine, -math::sin_end, math::sin_end) <= 0x1p-25);
}

TEST_CASE("math: ends, infinities and NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(math::exp(-inf) == 0);
  CHECK(math::exp(inf) == inf);
  CHECK(math::exp(0) == 1);
  CHECK(math::exp(-745.0) == std::numeric_limits<double>::denorm_min());
  CHECK(std::isnan(math::exp(std::nan(""))));
  CHECK(math::log(0) == -inf);
  CHECK(math::log(1) == 0);
  CHECK(math::log(inf) == inf);
  CHECK(std::isnan(math::log(-1)));
  CHECK(math::log(std::numeric_limits<double>::denorm_min()) ==
        doctest::Approx(-744.44007192138122));
  CHECK(math::tanh(inf) == 1);
  CHECK(math::tanh(-inf) == -1);
  CHECK(std::signbit(math::tanh(-0.0)));
  CHECK(std::isnan(math::tanh(std::nan(""))));
  CHECK(math::expm1(-inf) == -1);
  CHECK(math::expm1(inf) == inf);
  CHECK(math::expm1(0x1p-60) == 0x1p-60);
  CHECK(std::isnan(math::expm1(std::nan(""))));
  CHECK(math::log1p(0) == 0);
  CHECK(math::log1p(0x1p-60) == 0x1p-60);
  CHECK(math::log1p(inf) == inf);
  CHECK(std::isnan(math::log1p(std::nan(""))));
  CHECK(math::erf(inf) == 1);
  CHECK(math::sigmoid(-inf) == 0);
  CHECK(math::atan(inf) == 0x1.921fb54442d18p0);
  CHECK(math::atan(-inf) == -0x1.921fb54442d18p0);
  CHECK(math::atan(0x1p-60) == 0x1p-60);
  CHECK(std::isnan(math::atan(std::nan(""))));
  CHECK(math::sin(0x1p-60) == 0x1p-60);
  CHECK(math::cos(0) == 1);
  for (const double x : {inf, -inf, std::nan(""), 0x1.01p26, -1e300}) {
    CHECK(std::isnan(math::sin(x)));
    CHECK(std::isnan(math::cos(x)));
  }
}

TEST_CASE("half: every f16 and bf16 goes to f32 and back unchanged") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Half h{static_cast<uint16_t>(bits)};
    const BHalf b{static_cast<uint16_t>(bits)};
    if (!std::isnan(to_float(h))) CHECK(to_half(to_float(h)) == h);
    if (!std::isnan(to_float(b))) CHECK(to_bhalf(to_float(b)) == b);
  }
}

TEST_CASE("half: f32 rounds to the nearest f16, ties to even") {
  CHECK(to_half(1.0f).bits == 0x3c00);
  CHECK(to_half(65504.0f).bits == 0x7bff);
  CHECK(to_half(65519.996f).bits == 0x7bff);
  CHECK(to_half(65520.0f).bits == 0x7c00);
  CHECK(to_half(0x1p-24f).bits == 1);
  CHECK(to_half(0x1p-25f).bits == 0);
  CHECK(to_half(0x1.8p-24f).bits == 2);
  CHECK(to_half(0x1.002p0f).bits == 0x3c00);
  CHECK(to_half(0x1.006p0f).bits == 0x3c02);
  CHECK((to_half(std::nanf("")).bits & 0x7fff) > 0x7c00);
  CHECK(to_float(Half{0x0001}) == 0x1p-24f);
  CHECK(to_float(Half{0xfc00}) == -std::numeric_limits<float>::infinity());
}
