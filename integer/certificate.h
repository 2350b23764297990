// Certificates: what the actual weights of a layer prove about every sum that can occur in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "qtape/integer/integer_value.h"

namespace qtape {

/// Bounds over all inputs within the range of their codes. Codes of 16 bits are taken in two
/// parts of 8 bits, x = 256 high + low.
struct Certificate {
  static constexpr std::string_view name = "Certificate";
  int64_t accumulator_bound = 0;
  int64_t part_bound = 0;
  int64_t pair_bound = 0;

  static constexpr int64_t s32_limit = 2147483647;
  static constexpr int64_t f32_limit = (int64_t{1} << 24) - 1;
  static constexpr int64_t s16_limit = 32767;

  static constexpr auto fields() {
    using C = Certificate;
    return std::tuple{
        field("accumulator_bound", &C::accumulator_bound,
              "no sum, with bias and zero point or in part, is further from 0; up to 2^31 - 1 "
              "it fits s32"),
        field(
            "part_bound", &C::part_bound,
            "the same for the products of one 8-bit part of the codes; below 2^24 it is exact "
            "in f32"),
        field("pair_bound", &C::pair_bound,
              "the same for two products of 8-bit parts, whichever they are; up to 2^15 - 1 "
              "int8 products are exact on processors that add pairs in 16 bits")};
  }

  bool fits_s32() const { return accumulator_bound <= s32_limit; }
  bool exact_in_f32() const { return part_bound <= f32_limit; }
  bool exact_in_pairs() const { return pair_bound <= s16_limit; }
  bool operator==(const Certificate&) const = default;
};

/// What no sum of products, as int8 multiplies them, is further from 0 than: signed codes, or
/// the signed part of 16-bit ones, with 128 added. Follows from `part_bound`; 2^63 - 1 where
/// nothing does, for signed codes that are all 0.
int64_t int8_accumulator_bound(const Certificate& certificate, const IntegerValue& x);

/// `accumulators 1000 of 2147483647 (x2147483.6)` for each of the three, the factor being the
/// margin.
std::string to_string(const Certificate& certificate);

/// What weights prove of which no more is known than that, for each output, their magnitudes
/// add up to `magnitude` at most and none is above `largest`; parts of codes are up to `most`.
/// Of accumulators it says nothing.
Certificate certify_sums(int64_t magnitude, int64_t largest, int64_t most);

/// What weights [n, k] and biases [n] (or none) on codes `x` prove.
Certificate certify(std::span<const int8_t> weights, int64_t n, int64_t k,
                    std::span<const int32_t> bias, const IntegerValue& x);

/// Range of the accumulators of output c alone, with bias and zero point: some input gives each
/// end.
struct AccumulatorRange {
  int64_t low = 0;
  int64_t high = 0;
};
/// The range that the weights of output c and its bias prove on codes `x`.
AccumulatorRange accumulator_range(std::span<const int8_t> weights_of_c, int64_t bias,
                                   const IntegerValue& x);

}  // namespace qtape
