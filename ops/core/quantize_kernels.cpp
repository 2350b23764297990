#include "qtape/ops/core/quantize_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "qtape/ops/core/isa.h"
#include "qtape/ops/core/vectorize.h"

namespace qtape {
namespace {

// Mask bits of a full block lie across it: bit k of 32-bit lane j is element 16 k + j. So a
// vector of lanes takes 32 vectors of elements without moving a bit sideways. The rest of a
// run, shorter than a block, has its bits in order.
constexpr int lanes = 16;
constexpr int64_t block = int64_t{32} * lanes;

/// One element quantized; `inside` is 1 where it counts as inside the range, else 0.
template <class S, bool half_even, bool exact, bool masked>
inline S quantize_element(S x, typename Storage<S>::Compute scale,
                          typename Storage<S>::Compute inverse,
                          const QuantizeRun<typename Storage<S>::Compute>& r,
                          uint32_t& inside) {
  using T = typename Storage<S>::Compute;
  const T value = Storage<S>::load(x);
  const T v = exact ? value / scale : value * inverse;
  const T bounded = clamp_near(v, r.q_min, r.q_max);
  const T rounded = half_even ? round_half_even(bounded) : round_half(bounded, r.away);
  if constexpr (masked) {
    const T unit = r.mask_by_value ? scale : T(1);
    const T judged = r.mask_by_value ? value : rounded;
    inside = static_cast<uint32_t>(judged >= r.mask_low * unit) &
             static_cast<uint32_t>(judged <= r.mask_high * unit);
  }
  return Storage<S>::store(clamp_code(rounded, r.q_min, r.q_max) * scale);
}

// The counter k is 32 bits wide on purpose: GCC 12 vectorises the loop over k wrongly where a
// 64-bit counter is the distance of a 32-bit shift.
template <class S, bool half_even, bool exact, bool per_element>
inline void quantize_block(const S* x, S* y, uint32_t* mask, int64_t begin,
                           const QuantizeRun<typename Storage<S>::Compute>& r) {
  alignas(64) uint32_t bits[lanes] = {};
  for (int k = 0; k < 32; ++k) {
    QTAPE_INDEPENDENT
    for (int j = 0; j < lanes; ++j) {
      const int64_t i = begin + k * lanes + j;
      const int64_t c = per_element ? i : 0;
      uint32_t inside = 0;
      y[i] = quantize_element<S, half_even, exact, true>(x[i], r.scale[c], r.inverse[c], r,
                                                         inside);
      bits[j] |= inside << k;
    }
  }
  std::memcpy(mask, bits, sizeof bits);
}

template <class S, bool half_even, bool exact, bool masked, bool per_element>
auto quantize_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best<const S*, S*, uint64_t*, int64_t, const QuantizeRun<T>*>(
      [](const S* x, S* y, uint64_t* mask, int64_t n, const QuantizeRun<T>* run) {
        const QuantizeRun<T> r = *run;
        uint32_t inside = 0;
        if constexpr (!masked) {
          QTAPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) {
            const int64_t c = per_element ? i : 0;
            y[i] = quantize_element<S, half_even, exact, false>(x[i], r.scale[c], r.inverse[c],
                                                                r, inside);
          }
        } else {
          auto* words = reinterpret_cast<uint32_t*>(mask);
          int64_t i = 0;
          for (; i + block <= n; i += block) {
            quantize_block<S, half_even, exact, per_element>(x, y, words + i / 32, i, r);
          }
          for (; i < n; ++i) {
            if (i % 64 == 0) mask[i / 64] = 0;
            const int64_t c = per_element ? i : 0;
            y[i] = quantize_element<S, half_even, exact, true>(x[i], r.scale[c], r.inverse[c],
                                                               r, inside);
            mask[i / 64] |= uint64_t{inside} << (i % 64);
          }
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
typename Bits<S>::Word magnitude_bits(S x) {
  using Word = typename Bits<S>::Word;
  return static_cast<Word>(std::bit_cast<Word>(x) & Bits<S>::magnitude);
}

/// The slow way, for runs that hold something not finite.
template <class S>
Extremes<typename Storage<S>::Compute> measure_finite(const S* x, int64_t n) {
  typename Bits<S>::Word largest = 0;
  int64_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = magnitude_bits(x[i]);
    if (bits >= Bits<S>::infinity) {
      ++bad;
    } else {
      largest = std::max(largest, bits);
    }
  }
  return {Storage<S>::load(std::bit_cast<S>(largest)), bad};
}

template <class S>
auto measure_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best<const S*, int64_t, Extremes<T>*>(
      [](const S* x, int64_t n, Extremes<T>* result) {
        typename Bits<S>::Word largest = 0;
        for (int64_t i = 0; i < n; ++i) largest = std::max(largest, magnitude_bits(x[i]));
        if (largest < Bits<S>::infinity) {
          *result = {Storage<S>::load(std::bit_cast<S>(largest)), 0};
        } else {
          *result = measure_finite(x, n);
        }
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
          const Word bits = magnitude_bits(x[i]);
          const bool finite = bits < Bits<S>::infinity;
          const T magnitude = finite ? Storage<S>::load(std::bit_cast<S>(bits)) : T(0);
          max_abs[i] = magnitude > max_abs[i] ? magnitude : max_abs[i];
          non_finite[i] += finite ? 0 : 1;
        }
      });
}

template <class S, bool accumulate>
inline S select_element(S dy, S dx, bool inside) {
  using T = typename Storage<S>::Compute;
  const T gradient = inside ? Storage<S>::load(dy) : T(0);
  return Storage<S>::store(accumulate ? Storage<S>::load(dx) + gradient : gradient);
}

template <class S, bool accumulate>
auto select_loop() {
  return simd::best<const S*, S*, const uint64_t*, int64_t>(
      [](const S* dy, S* dx, const uint64_t* mask, int64_t n) {
        int64_t i = 0;
        for (; i + block <= n; i += block) {
          alignas(64) uint32_t bits[lanes];
          std::memcpy(bits, mask + i / 64, sizeof bits);
          for (int k = 0; k < 32; ++k) {
            QTAPE_INDEPENDENT
            for (int j = 0; j < lanes; ++j) {
              const bool inside = (bits[j] & (uint32_t{1} << k)) != 0;
              const int64_t at = i + k * lanes + j;
              dx[at] = select_element<S, accumulate>(dy[at], dx[at], inside);
            }
          }
        }
        for (; i < n; ++i) {
          const bool inside = (mask[i / 64] >> (i % 64) & 1u) != 0;
          dx[i] = select_element<S, accumulate>(dy[i], dx[i], inside);
        }
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
