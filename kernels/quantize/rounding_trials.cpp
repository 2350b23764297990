#include "qtape/kernels/quantize/rounding_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/core/isa.h"
#include "qtape/core/random.h"

namespace qtape::kernels {
namespace {

// No multiples of the elements in a vector.
constexpr int64_t known_channels = 19;
constexpr int64_t known_rows = 5;
constexpr int64_t known_count = known_channels * known_rows;
constexpr RequantizeCodes byte_codes{.zero_point = -3, .low = -128, .high = 127};

int32_t expected_code(int64_t value, const RequantizeCodes& codes) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(value + codes.zero_point, codes.low, codes.high));
}

bool sums_are_exact(RequantizeLoop<int8_t> loop, Requantization requantization) {
  std::vector<Multiplier> multipliers;
  std::vector<int64_t> offsets;
  for (int64_t c = 0; c < known_channels; ++c) {
    // Ratios from 2^-9 to 2^9, some of them powers of two, whose products have ties.
    const double ratio = std::ldexp(c % 3 == 0 ? 1.0 : 1.37, static_cast<int>(c) - 9);
    multipliers.push_back(multiplier_of(ratio, 1.0));
    offsets.push_back(c * 7 - 50);
  }
  const RequantizeTable table(multipliers, offsets, known_channels);
  const Random random(1, 0);
  std::array<int32_t, known_count> sums{};
  for (size_t i = 0; i < sums.size(); ++i) {
    // Of every magnitude, so that codes within the range are as frequent as clamped ones.
    sums[i] = static_cast<int32_t>(random.bits(i)) >> (random.bits(known_count + i) % 31);
    sums[i] -= sums[i] / 4;
  }
  std::array<int8_t, known_count> codes{};
  loop(sums.data(), codes.data(), known_rows, &table, &byte_codes);
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t c = i % known_channels;
    const int32_t rounded = requantize(sums[i] + offsets[c], multipliers[c], requantization);
    if (codes[i] != expected_code(rounded, byte_codes)) return false;
  }
  return true;
}

/// True if the loop gives the codes of `expected(a, b, terms)` for 0 <= a, b < 256.
template <class Expected>
bool pairs_are_exact(PairLoop loop, const Expected& expected) {
  PairTerms terms{.a = {.zero_point = 131},
                  .b = {.zero_point = 7},
                  .y = {.zero_point = 120, .low = 2, .high = 251},
                  .sum = add_multiplier_of(0.031, 0.047, 0.052, false),
                  .sign = -1,
                  .product = multiplier_of(0.031 * 0.047, 0.19)};
  const Random random(2, 0);
  std::array<uint8_t, known_count> a{};
  std::array<uint8_t, known_count> b{};
  std::array<uint8_t, known_count> y{};
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(random.bits(i) >> 56);
    b[i] = static_cast<uint8_t>(random.bits(i) >> 48);
  }
  loop(a.data(), b.data(), y.data(), known_count, &terms);
  for (size_t i = 0; i < a.size(); ++i) {
    const int32_t wanted =
        expected(a[i] - terms.a.zero_point, b[i] - terms.b.zero_point, terms);
    if (y[i] != expected_code(wanted, terms.y)) return false;
  }
  return true;
}

bool floats_are_exact(QuantizeLoops<float>::Quantize loop) {
  const float scale = 0.37F;
  const float inverse = 1 / scale;
  const float zero_point = 5;
  const QuantizeChunk<float> chunk{.scale = &scale,
                                   .inverse = &inverse,
                                   .zero_point = &zero_point,
                                   .q_min = -100,
                                   .q_max = 100};
  const Random random(3, 0);
  std::array<float, known_count> x{};
  std::array<float, known_count> y{};
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(100 * random.uniform(i) - 50);
    if (i % 4 == 0) x[i] = scale * (std::floor(x[i]) + 0.5F);
  }
  loop(x.data(), y.data(), nullptr, known_count, &chunk);
  for (size_t i = 0; i < x.size(); ++i) {
    const float code =
        std::clamp(std::nearbyint(x[i] / scale) + zero_point, chunk.q_min, chunk.q_max);
    if (std::bit_cast<uint32_t>(y[i]) != std::bit_cast<uint32_t>((code - zero_point) * scale)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string rounding_error(const RoundingLoops& loops) {
  const FloatEnvironment floats;
  for (const Requantization requantization : requantization::values) {
    const auto sum = [&](int32_t a, int32_t b, const PairTerms& terms) {
      return requantize_add(a, terms.sign * b, terms.sum, requantization);
    };
    const auto product = [&](int32_t a, int32_t b, const PairTerms& terms) {
      return requantize(int64_t{a} * b, terms.product, requantization);
    };
    const auto named = [&](std::string_view what) {
      return fmt::format("{} by {}", what, to_string_view(requantization));
    };
    if (!sums_are_exact(loops.requantize(requantization), requantization)) {
      return named("codes of sums");
    }
    if (!pairs_are_exact(loops.add(requantization), sum)) return named("sums of codes");
    if (!pairs_are_exact(loops.multiply(requantization), product)) {
      return named("products of pairs of codes");
    }
  }
  return floats_are_exact(loops.quantize) ? "" : "codes of floats";
}

void require_exact_rounding() {
  static const std::string error = rounding_error({});
  require<Error>(error.empty(),
                 "this processor computes {} wrongly by {}; set QTAPE_ISA to a lower "
                 "instruction set",
                 error, to_string_view(isa()));
}

}  // namespace qtape::kernels
