// Every requantization, against exact rational arithmetic.
#include "qtape/kernels/quantize/requantize.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/exact_formulas.h"
#include "qtape/tests/support/first_difference.h"

using namespace qtape;
using namespace qtape::kernels;
using test::FirstDifference;
using enum Requantization;

namespace {

constexpr int64_t s32_min = std::numeric_limits<int32_t>::min();
constexpr int64_t s32_max = std::numeric_limits<int32_t>::max();

/// Returns the result of the formula for a ratio.
int32_t oracle(int64_t acc, double ratio, Requantization by, bool of_16_bits = false) {
  return static_cast<int32_t>(test::formulas::requant(acc, ratio, 1, by, of_16_bits));
}

std::vector<int64_t> accumulators() {
  std::vector<int64_t> all = {0, 1, -1, 2, -2, 127, -128, s32_max, s32_min, s32_max - 1, 3};
  const Random random(3, 3);
  for (uint64_t i = 0; i < 3000; ++i) {
    const int bits = 1 + static_cast<int>(i % 31);
    const auto magnitude = static_cast<int64_t>(random.below(i, uint64_t{1} << bits));
    all.push_back(i % 2 == 0 ? magnitude : -magnitude);
  }
  return all;
}

const std::vector<double> ratios = {
    1.0,    0.5,  0.25,   0.75,    1.0 / 3, 0.0123,        1e-4, 3.7e-9, 0x1.8p-2,
    1.9999, 7.25, 1000.5, 0x1p-31, 0.99999, 0x1.fffffep-1, 2.0,  0x1p-8, 0.00390625001};

}  // namespace

TEST_CASE("requantize: SingleRounding and DoubleRounding equal exact arithmetic") {
  for (double ratio : ratios) {
    const Multiplier m = multiplier_of(ratio, 1.0);
    CAPTURE(ratio);
    FirstDifference found;
    for (int64_t acc : accumulators()) {
      for (auto by : {SingleRounding, DoubleRounding}) {
        found.compare(requantize(acc, m, by), oracle(acc, ratio, by),
                      to_string_view(by).data());
      }
    }
    CHECK(found.text() == "");
  }
}

TEST_CASE("requantize: s64 accumulators, as 16-bit activations give, equal exact arithmetic") {
  const Random random(5, 5);
  for (double ratio : ratios) {
    const Multiplier m = multiplier_of(ratio, 1.0);
    CAPTURE(ratio);
    FirstDifference found;
    for (uint64_t i = 0; i < 1000; ++i) {
      const auto magnitude = static_cast<int64_t>(random.below(i, uint64_t{1} << 47));
      const int64_t acc = i % 2 == 0 ? magnitude : -magnitude;
      for (auto by : requantization::values) {
        found.compare(requantize(acc, m, by), oracle(acc, ratio, by),
                      to_string_view(by).data());
        found.compare(requantize(acc, m, by, Accumulator::S64), oracle(acc, ratio, by, true),
                      "s64");
      }
    }
    CHECK(found.text() == "");
  }
}

TEST_CASE("requantize: accumulators beyond s32 reach the codes that they stand for") {
  const Multiplier m = multiplier_of(2.870e-7, 1.0);
  const int64_t acc = 249'848'654'099;
  CHECK(requantize(acc, m, DoubleRounding) == 71707);
  CHECK(requantize(acc, m, SingleRounding) == 71707);
  CHECK(requantize(-acc, m, DoubleRounding) == -71707);
  // 0.601882624 2^-21; in 16 bits, 19722 2^-36.
  CHECK(requantize(acc, m, DoubleRounding, Accumulator::S64) == 71705);
  CHECK(requantize(-acc, m, SingleRounding, Accumulator::S64) == -71705);
}

TEST_CASE("requantize: S64 accumulators are multiplied by 16 bits of the mantissa") {
  const auto reduced = [](int32_t mantissa) {
    return reduced_mantissa(Multiplier{.mantissa = mantissa});
  };
  CHECK(reduced(0) == 0);
  CHECK(reduced(0x40000000) == 0x4000);
  CHECK(reduced(0x40007fff) == 0x4000);
  CHECK(reduced(0x40008000) == 0x4001);
  CHECK(reduced(0x7ffeffff) == 0x7fff);
  CHECK(reduced(0x7fff0000) == 0x7fff);
  CHECK(reduced(0x7fffffff) == 0x7fff);
  // Ties are rounded up in both requantizations.
  const Multiplier half = multiplier_of(0.5, 1.0);
  for (auto [acc, expected] : std::vector<std::pair<int64_t, int32_t>>{
           {1, 1}, {3, 2}, {-1, 0}, {-3, -1}, {-5, -2}, {5, 3}}) {
    for (auto requantization : {SingleRounding, DoubleRounding}) {
      CHECK(requantize(acc, half, requantization, Accumulator::S64) == expected);
    }
  }
  // Just below 1, the 16-bit mantissa is limited to 1 - 2^-15.
  const Multiplier one = multiplier_of(0x1.fffffep-1, 1.0);
  CHECK(requantize(65535, one, SingleRounding, Accumulator::S64) == 65533);
  CHECK(requantize(65535, one, SingleRounding) == 65535);
}

TEST_CASE(
    "requantize: FloatMultiply rounds one product to even, OnnxQdq a quotient of a product") {
  const double accumulator_scale = 0.1 * 0.003;
  const Multiplier m = multiplier_of(accumulator_scale, 0.07);
  FirstDifference found;
  for (int64_t acc : accumulators()) {
    for (auto by : {FloatMultiply, OnnxQdq}) {
      const int64_t expected = test::formulas::requant(acc, accumulator_scale, 0.07, by);
      found.compare<int64_t>(requantize(acc, m, by), expected, to_string_view(by).data());
    }
  }
  CHECK(found.text() == "");
  const Multiplier half = multiplier_of(0.5, 1.0);
  for (auto [acc, even, single, twice] :
       std::vector<std::tuple<int64_t, int32_t, int32_t, int32_t>>{
           {1, 0, 1, 1}, {3, 2, 2, 2}, {-1, 0, 0, 0}, {-3, -2, -1, -1}, {5, 2, 3, 3}}) {
    CHECK(requantize(acc, half, FloatMultiply) == even);
    CHECK(requantize(acc, half, OnnxQdq) == even);
    CHECK(requantize(acc, half, SingleRounding) == single);
    CHECK(requantize(acc, half, DoubleRounding) == twice);
  }
}

TEST_CASE("requantize: results beyond s32 are limited") {
  const Multiplier m = multiplier_of(100.0, 1.0);
  for (auto requantization : requantization::values) {
    for (auto accumulator : {Accumulator::S32, Accumulator::S64}) {
      CHECK(requantize(s32_max, m, requantization, accumulator) >= s32_max - 128);
      CHECK(requantize(-(max_accumulator - 1), m, requantization, accumulator) <=
            s32_min + 128);
    }
  }
  CHECK(requantize(s32_max, m, DoubleRounding) == s32_max);
  CHECK(requantize(-(max_accumulator - 1), m, DoubleRounding) == s32_min);
}

TEST_CASE("requantize: a mantissa represents its ratio to 31 bits") {
  for (double ratio : ratios) {
    const Multiplier m = multiplier_of(ratio, 1.0);
    CHECK(m.mantissa >= int32_t{1} << 30);
    const double represented = std::ldexp(static_cast<double>(m.mantissa), m.exponent - 31);
    CHECK(std::fabs(represented - ratio) <= std::ldexp(ratio, -31));
  }
  // 2^30 + 2^15 + 2^14 + 1/2: halves are rounded away from zero.
  const Multiplier tie = multiplier_of((1 + 0x1p-16) * ((1 + 0x1p-15) * 0x1p-15), 1.0);
  CHECK(tie.mantissa == 1073790977);
  CHECK(tie.exponent == -14);
  CHECK(multiplier_of(0.5 + 0x1p-32, 1.0).mantissa == (int32_t{1} << 30) + 1);
  CHECK(multiplier_of(0.5 + 0x1p-32 - 0x1p-53, 1.0).mantissa == int32_t{1} << 30);
  // A ratio just below 1 is rounded up to the next power of two.
  const Multiplier m = multiplier_of(1.0 - 0x1p-40, 1.0);
  CHECK(m.mantissa == int32_t{1} << 30);
  CHECK(m.exponent == 1);
}

TEST_CASE("requantize: the mantissa of a mean is that of its sums, divided and truncated") {
  const auto is = [](double s, double y, int64_t terms, int32_t mantissa, int32_t exponent) {
    CAPTURE(s);
    CAPTURE(terms);
    const Multiplier m = mean_multiplier_of(s, y, terms);
    CHECK(m.mantissa == mantissa);
    CHECK(m.exponent == exponent);
    CHECK(m.ratio == static_cast<float>(s / static_cast<double>(terms) / y));
  };
  is(0.5, 1, 3, 715827882, -1);
  is(double{0.02f}, double{0.013f}, 49, 1078798646, -4);  // 1078798647 by the divided scale
  is(double{0.3f}, double{0.001f}, 25, 805306361, 5);
  is(1, 0x1p20, 6, 715827882, -21);
  is(1, 1, (1 << 23) - 1, 536870976, -21);
  // No exponent is below -31.
  is(0x1p-31, 1, 7, 306783378, -31);
  is(0x1p-40, 1, 7, 0, -2);
  for (int64_t terms = 1; terms <= 1 << 20; terms *= 2) {
    const Multiplier m = mean_multiplier_of(0.3, 0.17, terms);
    CHECK(m == multiplier_of(0.3 / static_cast<double>(terms), 0.17));
  }
}

TEST_CASE("requantize: scales and ratios that cannot be are refused") {
  const auto error = [](double accumulator_scale, double output_scale) {
    return test::error_text<ArgumentError>(
        [&] { (void)multiplier_of(accumulator_scale, output_scale); });
  };
  CHECK(error(0, 1) ==
        "scales must be positive and normal f32, got 0 for the accumulators and 1 for the "
        "output");
  CHECK(error(1, -2).find("got 1 for the accumulators and -2") != std::string::npos);
  CHECK(error(1, std::nan("")) != "no error");
  CHECK(error(1e-45, 1) != "no error");
}

TEST_CASE("requantize: ratios beyond what targets shift by are 0 or saturate") {
  const Multiplier none = multiplier_of(1e-12, 1e3);
  CHECK(none.mantissa == 0);
  CHECK(requantize(s32_max, none, SingleRounding) == 0);
  CHECK(requantize(s32_min, none, DoubleRounding) == 0);
  for (double ratio : {1e6, 1e9, 3e9, 1e30}) {
    const Multiplier most = multiplier_of(ratio, 1);
    for (auto requantization : requantization::values) {
      CHECK(requantize(0, most, requantization) == 0);
      CHECK(requantize(1, most, requantization) >= 999999);
      CHECK(requantize(-1, most, requantization) <= -999999);
      CHECK(requantize(max_accumulator - 1, most, requantization) >= int32_t{1} << 30);
      CHECK(requantize(1 - max_accumulator, most, requantization) <= -(int32_t{1} << 30));
      CHECK(requantize(0, most, requantization, Accumulator::S64) == 0);
      CHECK(requantize(1, most, requantization, Accumulator::S64) >= 999960);
      CHECK(requantize(-1, most, requantization, Accumulator::S64) <= -999960);
      CHECK(requantize(1 - max_accumulator, most, requantization, Accumulator::S64) <=
            s32_min + 128);
    }
  }
}

TEST_CASE("requantize: the sum of two codes, as TFLite adds, and to within a step of the sum") {
  const Random random(7, 7);
  for (bool wide : {false, true}) {
    const int64_t most = wide ? 65535 : 255;
    for (const auto& scales : std::vector<std::array<double, 3>>{
             {0.01, 0.01, 0.02}, {0.003, 0.9, 0.7}, {1.0, 0x1p-9, 1.5}, {1e-12, 1, 1}}) {
      const AddMultiplier m = add_multiplier_of(scales[0], scales[1], scales[2], wide);
      INFO("scale ", scales[0], ", wide ", wide);
      FirstDifference found;
      bool near = true;
      for (uint64_t i = 0; i < 2000; ++i) {
        const auto draw = [&](uint64_t k) {
          const auto v = random.below(2 * i + k, static_cast<uint64_t>(2 * most + 1));
          return static_cast<int32_t>(static_cast<int64_t>(v) - most);
        };
        const int32_t a = draw(0);
        const int32_t b = draw(1);
        const double exact = (a * double{m.a_scale} + b * double{m.b_scale}) / scales[2];
        for (auto requantization : requantization::values) {
          const int32_t y = requantize_add(a, b, m, requantization);
          // 16-bit codes keep 15 fraction bits, and f32 rounds their accumulators.
          near = near && std::fabs(y - exact) <= (wide ? 0.53 : 0.501);
          found.compare<int64_t>(y, test::formulas::add(a, b, scales[0], scales[1], scales[2],
                                                        requantization, wide));
        }
      }
      CHECK(near);
      CHECK(found.text() == "");
    }
  }
  CHECK(test::error_text<ArgumentError>([] { (void)add_multiplier_of(1, 0, 2, false); }) ==
        "scales must be positive, normal f32 below 2^100 and differ by less than a factor of "
        "2^64, got 1 and 0 for the summands and 2 for the output");
}
