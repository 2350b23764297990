// Loops over blocks of windows by NEON: SDOT (bytes) and SMLAL (words).
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <array>
#include <utility>

#include "qtape/kernels/integer/code_products.h"
#include "qtape/kernels/integer/window_block.h"

namespace qtape::kernels {

/// Not a loop: GCC 12 would turn it into a call of memset and keep the sums in memory.
template <int... i>
__attribute__((always_inline)) inline void clear_sums(int32x4_t* sums,
                                                      std::integer_sequence<int, i...>) {
  ((sums[i] = vdupq_n_s32(0)), ...);
}

/// Stores four sums of each of `quarters` vectors, the first `count` of them.
template <int quarters>
inline void store_sums(const int32x4_t* sums, int64_t count, int32_t* y) {
  if (count == quarters * 4) {
    for (int q = 0; q < quarters; ++q) vst1q_s32(y + q * 4, sums[q]);
    return;
  }
  std::array<int32_t, quarters * 4> rest;
  for (int q = 0; q < quarters; ++q) vst1q_s32(rest.data() + q * 4, sums[q]);
  std::copy_n(rest.data(), count, y);
}

template <>
struct WindowRegisters<int8_t> {
  static constexpr int64_t lanes = 8;
  /// Points of a block with one vector and with two. GCC 12 spills more than 20 accumulators.
  static constexpr std::array<int, 2> points = {10, 5};

#if QTAPE_HAS_NEON_DOT
  template <int points, int vectors>
  __attribute__((target("arch=armv8.2-a+dotprod"))) static void loop(
      const WindowBlock<int8_t>& b) {
    constexpr int quarters = 2 * vectors;
    int32x4_t acc[points * quarters];
    clear_sums(acc, std::make_integer_sequence<int, points * quarters>{});
    const auto* weights = reinterpret_cast<const int8_t*>(b.weights);
    for (int64_t r = 0; r < b.run_count; ++r) {
      const int8_t* x = b.x + b.runs[r];
      for (int64_t g = 0; g < b.groups; ++g, x += 4) {
        int8x16_t w[quarters];
        for (int q = 0; q < quarters; ++q, weights += 16) w[q] = vld1q_s8(weights);
        for (int p = 0; p < points; ++p) {
          const int8x8_t codes = vreinterpret_s8_s32(vdup_n_s32(group_at(x + p * b.step)));
          for (int q = 0; q < quarters; ++q) {
            acc[p * quarters + q] = vdotq_lane_s32(acc[p * quarters + q], w[q], codes, 0);
          }
        }
      }
    }
    for (int p = 0; p < points; ++p) {
      store_sums<quarters>(acc + p * quarters, (vectors - 1) * lanes + b.last, b.y + p * b.n);
    }
  }
#else
  /// Never called, because code_products() is not Bytes.
  template <int points, int vectors>
  static void loop(const WindowBlock<int8_t>&) {}
#endif
};

template <>
struct WindowRegisters<int16_t> {
  static constexpr int64_t lanes = 8;
  static constexpr std::array<int, 2> points = {8, 5};

  template <int points, int vectors>
  static void loop(const WindowBlock<int16_t>& b) {
    constexpr int quarters = 2 * vectors;
    int32x4_t acc[points * quarters];
    clear_sums(acc, std::make_integer_sequence<int, points * quarters>{});
    const auto* weights = reinterpret_cast<const int16_t*>(b.weights);
    for (int64_t r = 0; r < b.run_count; ++r) {
      const int16_t* x = b.x + b.runs[r];
      for (int64_t g = 0; g < b.groups; ++g, x += 2) {
        int16x8x2_t w[vectors];  // the first terms of eight outputs, the second terms
        for (int v = 0; v < vectors; ++v, weights += 16) w[v] = vld2q_s16(weights);
        for (int p = 0; p < points; ++p) {
          const int16x4_t codes = vreinterpret_s16_s32(vdup_n_s32(group_at(x + p * b.step)));
          for (int v = 0; v < vectors; ++v) {
            int32x4_t* sums = acc + p * quarters + 2 * v;
            sums[0] = vmlal_lane_s16(sums[0], vget_low_s16(w[v].val[0]), codes, 0);
            sums[1] = vmlal_high_lane_s16(sums[1], w[v].val[0], codes, 0);
            sums[0] = vmlal_lane_s16(sums[0], vget_low_s16(w[v].val[1]), codes, 1);
            sums[1] = vmlal_high_lane_s16(sums[1], w[v].val[1], codes, 1);
          }
        }
      }
    }
    for (int p = 0; p < points; ++p) {
      store_sums<quarters>(acc + p * quarters, (vectors - 1) * lanes + b.last, b.y + p * b.n);
    }
  }
};

}  // namespace qtape::kernels
