#include "qtape/ops/core/quantize_kernels.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "qtape/ops/core/isa.h"
#include "qtape/ops/core/vectorize.h"

namespace qtape {
namespace {

/// Eight bytes of 0 or 1 as eight bits: the product moves byte i to bit 56 + i.
inline uint64_t pack_bytes(const uint8_t* bytes) {
  uint64_t eight = 0;
  std::memcpy(&eight, bytes, 8);
  if constexpr (std::endian::native == std::endian::big) eight = __builtin_bswap64(eight);
  return (eight * 0x0102040810204080ULL) >> 56;
}

inline uint64_t pack_word(const uint8_t* bytes) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word |= pack_bytes(bytes + 8 * i) << (8 * i);
  return word;
}

/// Quantizes n elements from `begin` on; `inside` gets a byte per element when masked.
template <class S, bool half_even, bool exact, bool masked, bool per_element>
inline void quantize_some(const S* x, S* y, uint8_t* inside, int64_t begin, int64_t n,
                          const QuantizeRun<typename Storage<S>::Compute>& run) {
  using T = typename Storage<S>::Compute;
  const T* scales = run.scale + (per_element ? begin : 0);
  const T* inverses = run.inverse + (per_element ? begin : 0);
  const S* from = x + begin;
  S* to = y + begin;
  const QuantizeRun<T> r = run;
  QTAPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T scale = scales[per_element ? i : 0];
    const T value = Storage<S>::load(from[i]);
    const T v = exact ? value / scale : value * inverses[per_element ? i : 0];
    const T lifted = v < r.q_min - T(1) ? r.q_min - T(1) : v;
    const T bounded = lifted > r.q_max + T(1) ? r.q_max + T(1) : lifted;
    const T rounded = half_even ? round_half_even(bounded) : round_half(bounded, r.away);
    const T code = clamp_code(rounded, r.q_min, r.q_max);
    if constexpr (masked) {
      const T unit = r.mask_by_value ? scale : T(1);
      const T judged = r.mask_by_value ? value : rounded;
      inside[i] = static_cast<uint8_t>((judged >= r.mask_low * unit) &
                                       (judged <= r.mask_high * unit));
    }
    to[i] = Storage<S>::store(code * scale);
  }
}

template <class S, bool half_even, bool exact, bool masked, bool per_element>
auto quantize_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best<const S*, S*, uint64_t*, int64_t, const QuantizeRun<T>*>(
      [](const S* x, S* y, uint64_t* mask, int64_t n, const QuantizeRun<T>* run) {
        if constexpr (!masked) {
          quantize_some<S, half_even, exact, false, per_element>(x, y, nullptr, 0, n, *run);
        } else {
          alignas(64) uint8_t inside[64];
          int64_t i = 0;
          for (; i + 64 <= n; i += 64) {
            quantize_some<S, half_even, exact, true, per_element>(x, y, inside, i, 64, *run);
            mask[i / 64] = pack_word(inside);
          }
          if (i == n) return;
          std::memset(inside, 0, sizeof inside);
          quantize_some<S, half_even, exact, true, per_element>(x, y, inside, i, n - i, *run);
          mask[i / 64] = pack_word(inside);
        }
      });
}

template <class S, bool half_even, bool exact>
auto quantize_loop(bool masked, bool per_element) {
  if (masked) {
    return per_element ? quantize_loop<S, half_even, exact, true, true>()
                       : quantize_loop<S, half_even, exact, true, false>();
  }
  return per_element ? quantize_loop<S, half_even, exact, false, true>()
                     : quantize_loop<S, half_even, exact, false, false>();
}

/// Magnitudes of non-negative floats order like their bits, and integer maxima vectorise.
template <class S>
struct Bits;
template <>
struct Bits<float> {
  using Word = int32_t;
  static constexpr Word infinity = 0x7f800000;
  static constexpr Word magnitude = 0x7fffffff;
};
template <>
struct Bits<double> {
  using Word = int64_t;
  static constexpr Word infinity = 0x7ff0000000000000;
  static constexpr Word magnitude = 0x7fffffffffffffff;
};
template <>
struct Bits<Half> {
  using Word = int16_t;
  static constexpr Word infinity = 0x7c00;
  static constexpr Word magnitude = 0x7fff;
};
template <>
struct Bits<BHalf> {
  using Word = int16_t;
  static constexpr Word infinity = 0x7f80;
  static constexpr Word magnitude = 0x7fff;
};

template <class S>
auto measure_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best<const S*, int64_t, Extremes<T>*>(
      [](const S* x, int64_t n, Extremes<T>* result) {
        using Word = typename Bits<S>::Word;
        Word largest = 0;
        Word bad = 0;
        for (int64_t i = 0; i < n; ++i) {
          const auto bits = static_cast<Word>(std::bit_cast<Word>(x[i]) & Bits<S>::magnitude);
          const bool finite = bits < Bits<S>::infinity;
          const Word candidate = finite ? bits : Word{0};
          largest = candidate > largest ? candidate : largest;
          bad = static_cast<Word>(bad + (finite ? 0 : 1));
        }
        *result = {Storage<S>::load(std::bit_cast<S>(largest)), bad};
      });
}

template <class S>
auto measure_columns_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best<const S*, int64_t, T*, int64_t*>(
      [](const S* x, int64_t n, T* max_abs, int64_t* non_finite) {
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          using Word = typename Bits<S>::Word;
          const auto bits = static_cast<Word>(std::bit_cast<Word>(x[i]) & Bits<S>::magnitude);
          const bool finite = bits < Bits<S>::infinity;
          const T magnitude = finite ? Storage<S>::load(std::bit_cast<S>(bits)) : T(0);
          max_abs[i] = magnitude > max_abs[i] ? magnitude : max_abs[i];
          non_finite[i] += finite ? 0 : 1;
        }
      });
}

template <class S, bool accumulate>
inline void select_some(const S* dy, S* dx, uint64_t word, int64_t n) {
  using T = typename Storage<S>::Compute;
  alignas(64) static constexpr uint32_t bit[32] = {
      1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
      1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
      1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
      1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};
  const auto half = static_cast<uint32_t>(word);
  QTAPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T gradient = (half & bit[i]) != 0 ? Storage<S>::load(dy[i]) : T(0);
    dx[i] = Storage<S>::store(accumulate ? Storage<S>::load(dx[i]) + gradient : gradient);
  }
}

template <class S, bool accumulate>
auto select_loop() {
  return simd::best<const S*, S*, const uint64_t*, int64_t>(
      [](const S* dy, S* dx, const uint64_t* mask, int64_t n) {
        int64_t i = 0;
        for (; i + 64 <= n; i += 64) {
          select_some<S, accumulate>(dy + i, dx + i, mask[i / 64], 32);
          select_some<S, accumulate>(dy + i + 32, dx + i + 32, mask[i / 64] >> 32, 32);
        }
        if (i == n) return;
        const int64_t low = n - i < 32 ? n - i : 32;
        select_some<S, accumulate>(dy + i, dx + i, mask[i / 64], low);
        select_some<S, accumulate>(dy + i + 32, dx + i + 32, mask[i / 64] >> 32, n - i - low);
      });
}

}  // namespace

template <class S>
QuantizeLoops<S> quantize_loops(Rounding rounding, Division division, bool masked,
                                bool per_element, bool accumulate) {
  QuantizeLoops<S> loops;
  const bool exact = division == Division::Exact;
  if (rounding == Rounding::HalfEven) {
    loops.quantize = exact ? quantize_loop<S, true, true>(masked, per_element)
                           : quantize_loop<S, true, false>(masked, per_element);
  } else {
    loops.quantize = exact ? quantize_loop<S, false, true>(masked, per_element)
                           : quantize_loop<S, false, false>(masked, per_element);
  }
  loops.measure = measure_loop<S>();
  loops.measure_columns = measure_columns_loop<S>();
  loops.select = accumulate ? select_loop<S, true>() : select_loop<S, false>();
  return loops;
}

template QuantizeLoops<float> quantize_loops(Rounding, Division, bool, bool, bool);
template QuantizeLoops<double> quantize_loops(Rounding, Division, bool, bool, bool);
template QuantizeLoops<Half> quantize_loops(Rounding, Division, bool, bool, bool);
template QuantizeLoops<BHalf> quantize_loops(Rounding, Division, bool, bool, bool);

}  // namespace qtape
