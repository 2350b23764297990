// Functions of fixed-point numbers, as the kernels of TensorFlow Lite Micro and CMSIS-NN
// compute them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace qtape {

/// The largest number of Q0.31, which stands for 1.
inline constexpr int64_t fixed_one = std::numeric_limits<int32_t>::max();

/// Returns a b / 2^31 rounded to nearest, halves upwards.
inline int64_t high_product(int64_t a, int64_t b) { return (a * b + (int64_t{1} << 30)) >> 31; }

/// Returns v / 2^bits rounded to nearest, halves away from 0; bits >= 1.
inline int64_t nearest_shift(int64_t v, int bits) {
  const int64_t magnitude = (std::abs(v) + (int64_t{1} << (bits - 1))) >> bits;
  return v < 0 ? -magnitude : magnitude;
}

/// Returns e^v in Q0.31 of v <= 0, which has `integer_bits` integer bits, 4 or 5, and
/// 31 - `integer_bits` fraction bits.
int64_t fixed_exp(int64_t v, int integer_bits);

/// Constants of the reciprocal in Q2.29, 48/17 and -32/17: its first approximation of 1 / h is
/// 48/17 - 32/17 h.
inline constexpr int32_t reciprocal_offset = 1515870810;
inline constexpr int32_t reciprocal_slope = -1010580540;

/// Returns 1 / h in Q2.29 of h in [1/2, 1) in Q0.31, by three steps of Newton.
int64_t fixed_reciprocal(int64_t h);

}  // namespace qtape
