// Vector loops of requantization, bit-exact with requantize (requantize.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qtape/kernels/quantize/requantize.h"

namespace qtape::kernels {

/// Multipliers and offsets of n channels, one array per field. All arrays except `offsets` are
/// repeated until the loops can read whole vectors.
struct RequantizeTable {
  RequantizeTable() = default;
  RequantizeTable(std::span<const Multiplier> multipliers, std::span<const int64_t> added,
                  int64_t channels) {
    assign(multipliers, added, channels);
  }
  /// `multipliers` has one element per channel or one for all. `added`, in steps of the
  /// accumulators, has one element per channel or none. Throws ArgumentError otherwise. Does
  /// not allocate if the sizes are unchanged.
  void assign(std::span<const Multiplier> multipliers, std::span<const int64_t> added,
              int64_t channels);

  int64_t n = 0;
  int64_t period = 0;  ///< length of the repeated arrays: a multiple of n
  /// Smallest right shift of the multipliers that shift right; 0 if none does.
  int32_t min_shift = 0;
  std::vector<int64_t> offsets;  ///< [n]
  std::vector<int32_t> bias;     ///< offsets modulo 2^32
  std::vector<float> accumulator_scale;
  std::vector<float> output_scale;
  std::vector<float> ratio;
  std::vector<int32_t> mantissa;
  std::vector<uint32_t> left;   ///< max(exponent, 0)
  std::vector<uint32_t> right;  ///< max(-exponent, 0)
  std::vector<int32_t> nudge;   ///< 2^30 where right is 0, else 0
};

/// Output grid. All three are codes; low <= high.
struct RequantizeCodes {
  int32_t zero_point = 0;
  int32_t low = 0;   ///< smallest code to write; raised if a ReLU is fused
  int32_t high = 0;  ///< largest code to write
};

/// y [rows, n] = clamp(requantize(acc [rows, n] + offsets [n]) + zero_point, low, high). acc +
/// offset must fit s32. The accumulator type is S32. acc and y must not overlap.
template <class Code>
using RequantizeLoop = void (*)(const int32_t* acc, Code* y, int64_t rows,
                                const RequantizeTable*, const RequantizeCodes*);

/// Loop of `requantization` for u8, s8, u16 or s16 codes.
template <class Code>
RequantizeLoop<Code> requantize_loop(Requantization requantization);

/// Requantizes s64 accumulators in a scalar loop. |acc + offset| < max_accumulator.
template <class Code>
void requantize_s64(const int64_t* acc, Code* y, int64_t rows, const RequantizeTable& table,
                    const RequantizeCodes& codes, Requantization requantization,
                    Accumulator accumulator);

/// Representation of a code in a byte.
struct CodeOfPair {
  bool is_signed = false;
  int32_t zero_point = 0;
};

/// Parameters of a binary op on codes: sums read `sum` and `sign`, products read `product`.
struct PairTerms {
  CodeOfPair a, b;
  RequantizeCodes y = {};
  AddMultiplier sum = {};
  int32_t sign = 1;         ///< -1 to subtract b
  Multiplier product = {};  ///< from the product of both scales
};

/// y [n] from codes a and b [n], all of 8 bits. y may be a or b, but must not overlap them
/// otherwise.
using PairLoop = void (*)(const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n,
                          const PairTerms*);
/// clamp(requantize_add(a - zp_a, sign (b - zp_b)) + zp, low, high).
PairLoop add_loop(Requantization requantization);
/// clamp(requantize((a - zp_a) (b - zp_b)) + zp, low, high).
PairLoop multiply_loop(Requantization requantization);

/// y [rows, n] = float(acc [rows, n] + offsets [n]) accumulator_scale [n]. acc + offset must
/// fit s32. acc and y must not overlap.
using DequantizeLoop = void (*)(const int32_t* acc, float* y, int64_t rows,
                                const RequantizeTable*);
DequantizeLoop dequantize_accumulators_loop();

}  // namespace qtape::kernels
