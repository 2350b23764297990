#include "qtape/kernels/quantize/quantize_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "qtape/kernels/quantize/quantize_rows.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

template <class V>
auto quantize_loop() {
  using S = typename V::Element;
  using T = typename V::T;
  return simd::best_for<S, const S*, S*, uint64_t*, int64_t, const QuantizeChunk<T>*>(
      [](const S* x, S* y, uint64_t* mask, int64_t n, const QuantizeChunk<T>* chunk) {
        const QuantizeChunk<T> r = *chunk;
        quantize<V>(x, y, mask, n, r);
      });
}

/// Selects the version for `v`. Only plain f32 has loops without a mask, because every version
/// is compiled for each instruction set, which takes build time.
template <class S>
auto chosen_loop(const QuantizeVersion& v) {
  const bool half_even = v.rounding == Rounding::HalfEven;
  const bool exact = v.division == Division::Exact;
  if constexpr (std::is_same_v<S, float>) {
    const auto plain = []<bool even, bool divide, bool columns, bool masked>() {
      return quantize_loop<Version<S, even, divide, masked, columns, true>>();
    };
    if (v.plain) return choose(plain, half_even, exact, v.columns, v.masked);
  }
  const auto general = []<bool even, bool divide, bool columns>() {
    return quantize_loop<Version<S, even, divide, true, columns, false>>();
  };
  return choose(general, half_even, exact, v.columns);
}

/// Integers ordered like the floats with the same bits: ... -0 < +0 ... < inf < NaN. Integer
/// maxima vectorise, and NaN orders beyond infinity, where one test detects it.
template <class S>
struct Key;
template <>
struct Key<float> {
  using Word = int32_t;
  static constexpr Word infinity = 0x7f800000;
};
template <>
struct Key<double> {
  using Word = int64_t;
  static constexpr Word infinity = 0x7ff0000000000000;
};
template <>
struct Key<Half> {
  using Word = int16_t;
  static constexpr Word infinity = 0x7c00;
};
template <>
struct Key<BHalf> {
  using Word = int16_t;
  static constexpr Word infinity = 0x7f80;
};

/// Converts bits to a key, and a key to bits.
template <class Word>
inline Word ordered(Word bits) {
  constexpr Word magnitude = std::numeric_limits<Word>::max();
  return static_cast<Word>(bits < 0 ? bits ^ magnitude : bits);
}

template <class S>
inline bool is_finite(typename Key<S>::Word key) {
  // The key of -inf is the complement of the key of +inf.
  return key < Key<S>::infinity && key > ~Key<S>::infinity;
}

/// Value of a key; zero is always positive.
template <class S>
inline typename Storage<S>::Compute value_of_key(typename Key<S>::Word key) {
  using T = typename Storage<S>::Compute;
  return Storage<S>::load(std::bit_cast<S>(ordered(key))) + T(0);
}

/// Slow path for segments that contain elements that are not finite.
template <class S>
Extremes<typename Storage<S>::Compute> measure_finite(const S* x, int64_t n) {
  Extremes<typename Storage<S>::Compute> seen;
  for (int64_t i = 0; i < n; ++i) {
    const auto key = ordered(std::bit_cast<typename Key<S>::Word>(x[i]));
    if (is_finite<S>(key)) {
      seen.range.merge({value_of_key<S>(key), value_of_key<S>(key)});
    } else {
      ++seen.non_finite;
    }
  }
  return seen;
}

template <class S>
auto measure_loop() {
  using T = typename Storage<S>::Compute;
  using Word = typename Key<S>::Word;
  return simd::best_for<S, const S*, int64_t, int64_t, T*, T*, int64_t*>(
      [](const S* x, int64_t n, int64_t segment, T* min, T* max, int64_t* non_finite) {
        for (int64_t begin = 0; begin < n; begin += segment) {
          const int64_t end = std::min(n, begin + segment);
          Word low = std::numeric_limits<Word>::max();
          Word high = std::numeric_limits<Word>::min();
          for (int64_t i = begin; i < end; ++i) {
            const Word key = ordered(std::bit_cast<Word>(x[i]));
            low = std::min(low, key);
            high = std::max(high, key);
          }
          Extremes<T> seen{{value_of_key<S>(low), value_of_key<S>(high)}, 0};
          if (!is_finite<S>(low) || !is_finite<S>(high)) {
            seen = measure_finite(x + begin, end - begin);
          }
          *min++ = seen.range.min;
          *max++ = seen.range.max;
          *non_finite++ = seen.non_finite;
        }
      });
}

template <class S>
auto measure_columns_loop() {
  using T = typename Storage<S>::Compute;
  using Word = typename Key<S>::Word;
  return simd::best_for<S, const S*, int64_t, T*, T*, int64_t*>(
      [](const S* x, int64_t n, T* min, T* max, int64_t* non_finite) {
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const bool finite = is_finite<S>(ordered(std::bit_cast<Word>(x[i])));
          const T value = Storage<S>::load(x[i]) + T(0);
          min[i] = finite && value < min[i] ? value : min[i];
          max[i] = finite && value > max[i] ? value : max[i];
          non_finite[i] += finite ? 0 : 1;
        }
      });
}

template <class S, bool accumulate>
inline S select_element(S dy, S dx, bool inside) {
  using T = typename Storage<S>::Compute;
  const T gradient = where(mask_of<T>(inside), Storage<S>::load(dy));
  return Storage<S>::store(accumulate ? Storage<S>::load(dx) + gradient : gradient);
}

template <class S, bool accumulate>
inline void select_row(const S* dy, S* dx, const uint32_t* bits, int k, int count) {
  QTAPE_INDEPENDENT_ROW
  for (int j = 0; j < count; ++j) {
    const bool inside = (bits[j] & (uint32_t{1} << k)) != 0;
    dx[j] = select_element<S, accumulate>(dy[j], dx[j], inside);
  }
}

template <class S, bool accumulate>
auto select_version() {
  return simd::best_for<S, const S*, S*, const uint64_t*, int64_t>(
      [](const S* dy, S* dx, const uint64_t* mask, int64_t n) {
        for (int64_t i = 0; i < n; i += block, mask += mask_block_words) {
          alignas(64) uint32_t bits[lanes];
          std::memcpy(bits, mask, sizeof bits);
          const int64_t rows = std::min<int64_t>(block_rows, (n - i) / lanes);
          int k = 0;
          QTAPE_INDEPENDENT
          for (; k < rows; ++k) {
            const int64_t at = i + int64_t{k} * lanes;
            prefetch_row(dy + at, dx + at);
            select_row<S, accumulate>(dy + at, dx + at, bits, k, lanes);
          }
          const int64_t at = i + int64_t{k} * lanes;
          const int rest = static_cast<int>(std::min<int64_t>(block, n - i)) - k * lanes;
          if (rest > 0) select_row<S, accumulate>(dy + at, dx + at, bits, k, rest);
        }
      });
}

}  // namespace

template <class S>
QuantizeLoops<S> quantize_loops(const QuantizeVersion& v) {
  return {chosen_loop<S>(v), measure_loop<S>(), measure_columns_loop<S>()};
}

template <class S>
SelectLoop<S> select_loop(bool accumulate) {
  return accumulate ? select_version<S, true>() : select_version<S, false>();
}

template QuantizeLoops<float> quantize_loops(const QuantizeVersion&);
template QuantizeLoops<double> quantize_loops(const QuantizeVersion&);
template QuantizeLoops<Half> quantize_loops(const QuantizeVersion&);
template QuantizeLoops<BHalf> quantize_loops(const QuantizeVersion&);

template SelectLoop<float> select_loop(bool);
template SelectLoop<double> select_loop(bool);
template SelectLoop<Half> select_loop(bool);
template SelectLoop<BHalf> select_loop(bool);

}  // namespace qtape::kernels
