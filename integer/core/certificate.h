// Certificates: bounds on every sum that can occur in a layer, proven from its actual weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "qtape/integer/core/integer_value.h"

namespace qtape {

/// Bounds over all inputs within the range of their codes. 16-bit codes are split into two
/// 8-bit parts, x = 256 high + low.
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
              "upper bound on the magnitude of every sum and partial sum, with bias and zero "
              "point; up to 2^31 - 1, sums fit s32"),
        field(
            "part_bound", &C::part_bound,
            "the same bound for the products of one 8-bit part of the codes; below 2^24, sums "
            "are exact in f32"),
        field(
            "pair_bound", &C::pair_bound,
            "the same bound for any two products of 8-bit parts; up to 2^15 - 1, int8 products "
            "are exact on processors that add pairs in 16 bits")};
  }

  bool fits_s32() const { return accumulator_bound <= s32_limit; }
  bool exact_in_f32() const { return part_bound <= f32_limit; }
  bool exact_in_pairs() const { return pair_bound <= s16_limit; }
  bool operator==(const Certificate&) const = default;
};

/// Upper bound of |sum of products| in the int8 kernel, which adds 128 to signed codes and to
/// the signed part of 16-bit codes. Follows from `part_bound`. Returns 2^63 - 1 for signed
/// codes that are all 0, for which `part_bound` does not bound the weights.
int64_t int8_accumulator_bound(const Certificate& certificate, const IntegerValue& x);

/// Formats the three bounds, each as `accumulators 1000 of 2147483647 (x2147483.6)`, where the
/// factor is the margin.
std::string to_string(const Certificate& certificate);

/// Returns the certificate of weights of which only two bounds are known: for each output, the
/// sum of their magnitudes is at most `magnitude`, and no magnitude exceeds `largest`. `most`
/// is the largest magnitude of an 8-bit part of the codes. The accumulator bound is left at 0.
Certificate certify_sums(int64_t magnitude, int64_t largest, int64_t most);

/// Returns the certificate of weights [n, k] and biases [n] (or none) applied to codes `x`.
/// Throws ArgumentError for another number of weights or biases.
Certificate certify(std::span<const int8_t> weights, int64_t n, int64_t k,
                    std::span<const int32_t> bias, const IntegerValue& x);

/// Exact range of the accumulators of one output, including bias and zero point: each end is
/// reached by some input.
struct AccumulatorRange {
  int64_t low = 0;
  int64_t high = 0;
};
/// Returns the accumulator range of output c for codes `x`, from its weights and bias.
AccumulatorRange accumulator_range(std::span<const int8_t> weights_of_c, int64_t bias,
                                   const IntegerValue& x);

}  // namespace qtape
