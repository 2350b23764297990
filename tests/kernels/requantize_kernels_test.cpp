// Loops of requantization, bit for bit against the scalar function.
#include "qtape/kernels/quantize/requantize_kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/first_difference.h"

using namespace qtape;
using namespace qtape::kernels;
using test::FirstDifference;

namespace {

constexpr int32_t s32_min = std::numeric_limits<int32_t>::min();
constexpr int32_t s32_max = std::numeric_limits<int32_t>::max();
constexpr auto requantizations = requantization::values;

/// Accumulators of every magnitude, including the limits of s32.
std::vector<int32_t> accumulators(int64_t n, uint64_t seed) {
  const std::vector<int32_t> ends = {0, 1, -1, s32_max, s32_min, s32_max - 1, s32_min + 1};
  const Random random(seed, 1);
  std::vector<int32_t> all(static_cast<size_t>(n));
  for (size_t i = 0; i < all.size(); ++i) {
    const uint64_t bits = random.bits(i);
    const auto magnitude =
        static_cast<int32_t>(static_cast<uint32_t>(bits) >> 1 >> (bits >> 40) % 31);
    all[i] = (bits >> 50) % 20 == 0 ? ends[(bits >> 55) % ends.size()]
             : (bits >> 63) != 0    ? magnitude
                                    : -magnitude;
  }
  return all;
}

/// Multipliers of every exponent, some of them powers of two.
std::vector<Multiplier> multipliers(int64_t n, uint64_t seed) {
  const Random random(seed, 2);
  std::vector<Multiplier> all;
  for (uint64_t c = 0; c < static_cast<uint64_t>(n); ++c) {
    const int exponent = static_cast<int>(random.below(3 * c, 66)) - 34;
    const double fraction =
        random.below(3 * c + 1, 4) == 0 ? 0.5 : 0.5 + random.uniform(3 * c + 2) / 2;
    const double output_scale = random.below(3 * c + 1, 3) == 0 ? 1.0 : 0.37;
    all.push_back(multiplier_of(std::ldexp(fraction, exponent) * output_scale, output_scale));
  }
  return all;
}

template <class Code>
RequantizeCodes grid(uint64_t seed) {
  constexpr int32_t least = std::numeric_limits<Code>::min();
  constexpr int32_t most = std::numeric_limits<Code>::max();
  const Random random(seed, 3);
  const auto any = [&](uint64_t i, int32_t low, int32_t high) {
    const auto count = static_cast<uint64_t>(int64_t{high} - low + 1);
    return low + static_cast<int32_t>(random.below(i, count));
  };
  const int32_t zero_point = seed % 4 == 0 ? least : seed % 4 == 1 ? most : any(0, least, most);
  const int32_t low = seed % 3 == 0 ? least : any(1, least, most);
  return {zero_point, low, seed % 5 < 3 ? most : any(2, low, most)};
}

/// First code of [rows, n] that differs from the scalar function.
template <class Code>
std::string wrong_codes(int64_t rows, int64_t n, uint64_t seed, Requantization requantization) {
  const auto wanted = multipliers(seed % 2 == 0 ? n : 1, seed);
  auto acc = accumulators(rows * n, seed);
  std::vector<int64_t> bias;
  if (seed % 3 != 0) {
    for (int32_t b : accumulators(n, seed + 1000)) bias.push_back(b / 4);
    for (int32_t& a : acc) a /= 4;
  }
  const RequantizeTable table(wanted, bias, n);
  const RequantizeCodes codes = grid<Code>(seed);
  std::vector<Code> y(acc.size());
  requantize_loop<Code>(requantization)(acc.data(), y.data(), rows, &table, &codes);
  FirstDifference found;
  for (size_t i = 0; i < acc.size(); ++i) {
    const size_t c = i % static_cast<size_t>(n);
    const int64_t sum = int64_t{acc[i]} + (bias.empty() ? 0 : bias[c]);
    const int64_t v = requantize(sum, wanted[wanted.size() == 1 ? 0 : c], requantization);
    found.compare<int64_t>(y[i],
                           std::clamp<int64_t>(v + codes.zero_point, codes.low, codes.high));
  }
  return found.text();
}

template <class Code>
void check_all() {
  for (Requantization requantization : requantizations) {
    uint64_t seed = 1;
    for (int64_t n : {1, 3, 10, 16, 17, 64, 100, 129, 1000}) {
      for (int repeat = 0; repeat < 12; ++repeat) {
        INFO(to_string_view(requantization), ", n ", n, ", seed ", seed);
        CHECK(wrong_codes<Code>(n < 20 ? 60 : 7, n, ++seed, requantization) == "");
      }
    }
  }
}

/// A byte that contains a code, and the code.
struct ByteOf {
  bool is_signed;
  int32_t operator()(int32_t byte) const {
    return is_signed ? static_cast<int8_t>(byte) : byte;
  }
};

/// First sum, difference or product of codes that differs from the scalar functions.
std::string wrong_pairs(uint64_t seed, Requantization requantization) {
  const Random random(seed, 4);
  const auto scale = [&](uint64_t i, int span) {
    return std::ldexp(random.below(i, 3) == 0 ? 0.5 : random.uniform(i + 100) / 2 + 0.5,
                      static_cast<int>(random.below(i + 200, static_cast<uint64_t>(span))));
  };
  const ByteOf a{random.below(1, 2) == 0};
  const ByteOf b{random.below(2, 2) == 0};
  const ByteOf y{random.below(3, 2) == 0};
  const int span = seed % 3 == 0 ? 40 : 8;
  const double a_scale = scale(10, span);
  const double b_scale = scale(11, span);
  const double y_scale = scale(12, span);
  const auto any_zero = [&](uint64_t i, const ByteOf& code) {
    return code(static_cast<int32_t>(random.below(i, 256)));
  };
  const RequantizeCodes codes = y.is_signed ? grid<int8_t>(seed) : grid<uint8_t>(seed);
  const int32_t sign = random.below(4, 2) == 0 ? 1 : -1;
  const PairTerms terms{.a = {a.is_signed, any_zero(5, a)},
                        .b = {b.is_signed, any_zero(6, b)},
                        .y = codes,
                        .sum = add_multiplier_of(a_scale, b_scale, y_scale, false),
                        .sign = sign,
                        .product = multiplier_of(a_scale * b_scale, y_scale)};
  std::vector<uint8_t> first, second;
  for (int32_t i = 0; i < 1 << 16; ++i) {
    first.push_back(static_cast<uint8_t>(i >> 8));
    second.push_back(static_cast<uint8_t>(i));
  }
  std::vector<uint8_t> sums(first.size());
  std::vector<uint8_t> products(first.size());
  const int64_t n = std::ssize(first);
  add_loop(requantization)(first.data(), second.data(), sums.data(), n, &terms);
  multiply_loop(requantization)(first.data(), second.data(), products.data(), n, &terms);
  FirstDifference found;
  const auto check = [&](int64_t rounded, uint8_t got) {
    found.compare<int64_t>(
        y(got), std::clamp<int64_t>(rounded + codes.zero_point, codes.low, codes.high));
  };
  for (size_t i = 0; i < first.size(); ++i) {
    const int32_t p = a(first[i]) - terms.a.zero_point;
    const int32_t q = b(second[i]) - terms.b.zero_point;
    check(requantize_add(p, sign * q, terms.sum, requantization), sums[i]);
    check(requantize(int64_t{p} * q, terms.product, requantization), products[i]);
  }
  return found.text();
}

}  // namespace

TEST_CASE("requantize_kernels: all pairs of codes equal the scalar functions") {
  for (Requantization requantization : requantizations) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      INFO(to_string_view(requantization), ", seed ", seed);
      CHECK(wrong_pairs(seed, requantization) == "");
    }
  }
}

TEST_CASE(
    "requantize_kernels: loops equal the scalar function for all codes and requantizations") {
  check_all<uint8_t>();
  check_all<int8_t>();
  check_all<uint16_t>();
  check_all<int16_t>();
}

TEST_CASE("requantize_kernels: every exponent, at the ends of s32 and around each tie") {
  for (int exponent = -33; exponent <= 31; ++exponent) {
    for (double fraction : {0.5, 0.75, 0.5 + 0x1p-31, 1 - 0x1p-31}) {
      const Multiplier m = multiplier_of(std::ldexp(fraction, exponent), 1);
      std::vector<int32_t> acc;
      for (int64_t code = -300; code <= 300; ++code) {
        const auto near = std::ldexp(static_cast<double>(code) + 0.5, -exponent) / fraction;
        for (int step = -1; step <= 1; ++step) {
          const double v = std::clamp<double>(std::floor(near) + step, s32_min, s32_max);
          acc.push_back(static_cast<int32_t>(v));
        }
      }
      const RequantizeTable table({&m, 1}, {}, 1);
      const RequantizeCodes codes{.zero_point = 0, .low = -128, .high = 127};
      for (Requantization requantization : requantizations) {
        std::vector<int8_t> y(acc.size());
        requantize_loop<int8_t>(requantization)(
            acc.data(), y.data(), static_cast<int64_t>(acc.size()), &table, &codes);
        FirstDifference found;
        for (size_t i = 0; i < acc.size(); ++i) {
          found.compare<int>(y[i],
                             std::clamp(requantize(acc[i], m, requantization), -128, 127));
        }
        INFO(to_string_view(requantization), ", ratio ", fraction, " * 2^", exponent);
        CHECK(found.text() == "");
      }
    }
  }
}

TEST_CASE("requantize_kernels: s64 accumulators equal the scalar function") {
  const int64_t n = 37;
  const auto wanted = multipliers(n, 5);
  const RequantizeCodes codes{.zero_point = 11, .low = -30000, .high = 32767};
  const Random random(6, 6);
  std::vector<int64_t> acc, bias;
  for (uint64_t i = 0; i < 5 * n; ++i) {
    acc.push_back((static_cast<int64_t>(random.bits(i)) >> 17) >> random.below(i, 40));
  }
  for (uint64_t i = 0; i < n; ++i) bias.push_back(static_cast<int64_t>(i) * 1000 - 7);
  for (Requantization requantization : requantizations) {
    for (int kind = 0; kind < 4; ++kind) {
      const bool biased = kind % 2 == 1;
      const auto accumulator = kind < 2 ? Accumulator::S32 : Accumulator::S64;
      const RequantizeTable table(wanted, biased ? bias : std::vector<int64_t>(), n);
      std::vector<int16_t> y(acc.size());
      requantize_s64(acc.data(), y.data(), 5, table, codes, requantization, accumulator);
      for (size_t i = 0; i < acc.size(); ++i) {
        const size_t c = i % n;
        const int64_t sum = acc[i] + (biased ? bias[c] : 0);
        const int64_t v = requantize(sum, wanted[c], requantization, accumulator);
        CHECK(y[i] == std::clamp<int64_t>(v + 11, -30000, 32767));
      }
    }
  }
}

TEST_CASE("requantize_kernels: accumulators become values by one conversion and one product") {
  const int64_t n = 45;
  const auto wanted = multipliers(n, 7);
  auto acc = accumulators(9 * n, 8);
  for (int32_t& a : acc) a /= 2;
  const std::vector<int64_t> bias(static_cast<size_t>(n), 12345);
  const RequantizeTable table(wanted, bias, n);
  std::vector<float> y(acc.size());
  dequantize_accumulators_loop()(acc.data(), y.data(), 9, &table);
  FirstDifference found;
  for (size_t i = 0; i < acc.size(); ++i) {
    found.compare(y[i], static_cast<float>(acc[i] + 12345) * wanted[i % n].accumulator_scale);
  }
  CHECK(found.text() == "");
}

TEST_CASE("requantize_kernels: a table of other channels is refused") {
  const std::vector<Multiplier> two(2);
  const std::vector<int64_t> bias(2);
  CHECK(test::error_text<ArgumentError>([&] { RequantizeTable(two, bias, 3); }) ==
        "3 channels need as many multipliers or 1, and as many offsets or none, got 2 and 2");
  CHECK(RequantizeTable(two, {}, 2).offsets == std::vector<int64_t>{0, 0});
}
