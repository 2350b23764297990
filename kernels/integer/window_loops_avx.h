// Loops over blocks of windows by AVX-512 VNNI (bytes) and AVX2 (words).
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "qtape/kernels/integer/window_block.h"

namespace qtape::kernels {

#define QTAPE_TARGET_BYTES __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define QTAPE_INLINE __attribute__((always_inline)) inline
#define QTAPE_TARGET_WORDS __attribute__((target("avx2")))

template <>
struct WindowRegisters<uint8_t> {
  static constexpr int64_t lanes = 16;
  /// Points of a block with one vector and with two. GCC 12 spills more than 16 accumulators.
  static constexpr std::array<int, 2> points = {14, 7};

  /// Not a loop: GCC 12 would turn it into a call of memset and keep the accumulators in
  /// memory.
  template <int... i>
  QTAPE_TARGET_BYTES QTAPE_INLINE static void clear(__m512i* acc,
                                                    std::integer_sequence<int, i...>) {
    ((acc[i] = _mm512_setzero_si512()), ...);
  }
  template <int points, int vectors>
  QTAPE_TARGET_BYTES static void loop(const WindowBlock<uint8_t>& b) {
    __m512i acc[points * vectors];
    clear(acc, std::make_integer_sequence<int, points * vectors>{});
    const std::byte* weights = b.weights;
    for (int64_t r = 0; r < b.run_count; ++r) {
      const uint8_t* x = b.x + b.runs[r];
      for (int64_t g = 0; g < b.groups; ++g, x += 4) {
        __m512i w[vectors];
        for (int v = 0; v < vectors; ++v, weights += 64) w[v] = _mm512_load_si512(weights);
        for (int p = 0; p < points; ++p) {
          const __m512i codes = _mm512_set1_epi32(group_at(x + p * b.step));
          for (int v = 0; v < vectors; ++v) {
            acc[p * vectors + v] = _mm512_dpbusd_epi32(acc[p * vectors + v], codes, w[v]);
          }
        }
      }
    }
    const auto last = static_cast<__mmask16>((1U << b.last) - 1);
    for (int p = 0; p < points; ++p) {
      for (int v = 0; v < vectors; ++v) {
        const auto mask = v + 1 < vectors ? static_cast<__mmask16>(0xffff) : last;
        _mm512_mask_storeu_epi32(b.y + p * b.n + v * lanes, mask, acc[p * vectors + v]);
      }
    }
  }
};

template <>
struct WindowRegisters<int16_t> {
  static constexpr int64_t lanes = 8;
  static constexpr std::array<int, 2> points = {8, 5};

  template <int... i>
  QTAPE_TARGET_WORDS QTAPE_INLINE static void clear(__m256i* acc,
                                                    std::integer_sequence<int, i...>) {
    ((acc[i] = _mm256_setzero_si256()), ...);
  }
  template <int points, int vectors>
  QTAPE_TARGET_WORDS static void loop(const WindowBlock<int16_t>& b) {
    __m256i acc[points * vectors];
    clear(acc, std::make_integer_sequence<int, points * vectors>{});
    const std::byte* weights = b.weights;
    for (int64_t r = 0; r < b.run_count; ++r) {
      const int16_t* x = b.x + b.runs[r];
      for (int64_t g = 0; g < b.groups; ++g, x += 2) {
        __m256i w[vectors];
        for (int v = 0; v < vectors; ++v, weights += 32) {
          w[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights));
        }
        for (int p = 0; p < points; ++p) {
          const __m256i codes = _mm256_set1_epi32(group_at(x + p * b.step));
          for (int v = 0; v < vectors; ++v) {
            acc[p * vectors + v] =
                _mm256_add_epi32(acc[p * vectors + v], _mm256_madd_epi16(codes, w[v]));
          }
        }
      }
    }
    alignas(32) std::array<int32_t, lanes> rest;
    for (int p = 0; p < points; ++p) {
      for (int v = 0; v < vectors; ++v) {
        int32_t* y = b.y + p * b.n + v * lanes;
        if (v + 1 < vectors || b.last == lanes) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), acc[p * vectors + v]);
        } else {
          _mm256_store_si256(reinterpret_cast<__m256i*>(rest.data()), acc[p * vectors + v]);
          std::copy_n(rest.data(), b.last, y);
        }
      }
    }
  }
};

}  // namespace qtape::kernels
