#include "qtape/kernels/quantize/quantize_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "qtape/kernels/simd/prefetch.h"
#include "qtape/kernels/simd/select.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

// Mask bits lie across a block: bit k of 32-bit lane j is element 16 k + j. So a vector of
// lanes takes 32 vectors of elements without moving a bit sideways. A cut block has fewer rows.
constexpr int lanes = static_cast<int>(mask_lanes);
constexpr int block_rows = 32;
constexpr int64_t block = int64_t{block_rows} * lanes;

/// What one element is quantized with. Limits are in steps from the point that rounding sees
/// as 0, which is the zero point or, where that is added before rounding, code 0.
template <class T>
struct ElementGrid {
  T scale, inverse, low, high;
  T mask_low, mask_high;          // of the rounded step, or of x with MaskRule::Value
  T shift, out_shift, out_scale;  // of loops that are not plain
};

/// What a loop is compiled for. `plain`: values out, zero point after rounding.
template <class S, bool HalfEven, bool Exact, bool Masked, bool Columns, bool Plain>
struct Version {
  using Element = S;
  using T = typename Storage<S>::Compute;
  static constexpr bool half_even = HalfEven;
  static constexpr bool exact = Exact;
  static constexpr bool masked = Masked;
  static constexpr bool columns = Columns;
  static constexpr bool plain = Plain;
};

template <class V>
inline ElementGrid<typename V::T> element_grid(const QuantizeChunk<typename V::T>& r,
                                               int64_t c) {
  using T = typename V::T;
  const T zero_point = r.zero_point[c];
  [[maybe_unused]] const Mask<T> before = mask_of<T>(r.before);
  [[maybe_unused]] const Mask<T> codes = mask_of<T>(r.codes);
  [[maybe_unused]] const Mask<T> by_value = mask_of<T>(r.mask_by_value);
  ElementGrid<T> e = {};
  e.scale = r.scale[c];
  e.inverse = V::exact ? T(0) : r.inverse[c];
  if constexpr (V::plain) {
    e.low = r.q_min - zero_point;
    e.high = r.q_max - zero_point;
  } else {
    const T offset = where(~before, zero_point);
    e.shift = where(before, zero_point);
    e.low = r.q_min - offset;
    e.high = r.q_max - offset;
    e.out_shift = either(codes, -offset, e.shift);
    e.out_scale = either(codes, T(1), e.scale);
  }
  if constexpr (V::masked) {
    const T unit = either(by_value, e.scale, T(1));
    const T shift = V::plain ? T(0) : where(by_value, e.shift);
    e.mask_low = (e.low - shift - r.slack_low) * unit;
    e.mask_high = (e.high - shift + r.slack_high) * unit;
  }
  return e;
}

/// One element quantized; `inside` is 1 where it counts as inside the range, else 0.
template <class V>
inline typename V::Element quantize_element(typename V::Element x,
                                            const ElementGrid<typename V::T>& e,
                                            const QuantizeChunk<typename V::T>& r,
                                            uint32_t& inside) {
  using T = typename V::T;
  const T value = Storage<typename V::Element>::load(x);
  T v = V::exact ? value / e.scale : value * e.inverse;
  if constexpr (!V::plain) v += e.shift;
  const T bounded = clamp_near(v, e.low, e.high);
  const T rounded = V::half_even ? round_half_even(bounded) : round_half(bounded, r.away);
  if constexpr (V::masked) {
    const T judged = either(mask_of<T>(r.mask_by_value), value, rounded);
    inside = static_cast<uint32_t>(judged >= e.mask_low) &
             static_cast<uint32_t>(judged <= e.mask_high);
  }
  const T code = clamp_code(rounded, e.low, e.high);
  if constexpr (V::plain) return Storage<typename V::Element>::store(code * e.scale);
  return Storage<typename V::Element>::store((code - e.out_shift) * e.out_scale);
}

/// Row k of a block, of `count` elements. The counter k is 32 bits wide on purpose: GCC 12
/// vectorises a loop over k wrongly where a 64-bit counter is the distance of a 32-bit shift.
template <class V, class GridAt>
inline void quantize_row(const typename V::Element* x, typename V::Element* y, uint32_t* bits,
                         int k, int count, const QuantizeChunk<typename V::T>& r,
                         const GridAt& grid_at) {
  QTAPE_INDEPENDENT
  for (int j = 0; j < count; ++j) {
    uint32_t inside = 0;
    y[j] = quantize_element<V>(x[j], grid_at(j), r, inside);
    if constexpr (V::masked) bits[j] |= inside << k;
  }
}

/// One at a time: in bursts they wait for each other.
template <class S>
inline void prefetch_row(const S* x, const S* y) {
  prefetch_reads(x, lanes * static_cast<int64_t>(sizeof(S)));
  prefetch_writes(y, lanes * static_cast<int64_t>(sizeof(S)));
}

/// Where a walk over segments stands.
template <class T>
struct Cursor {
  int64_t channel = 0;
  int64_t left = 0;  // elements of the segment
  ElementGrid<T> grid;
};

/// n <= block elements of segments, which end at rows.
template <class V>
inline void quantize_block(const typename V::Element* x, typename V::Element* y, uint32_t* bits,
                           int n, const QuantizeChunk<typename V::T>& r,
                           Cursor<typename V::T>& cursor) {
  for (int k = 0; k * lanes < n;) {
    if (cursor.left <= 0) {
      cursor.channel = cursor.channel + 1 == r.channels ? 0 : cursor.channel + 1;
      cursor.left = r.segment;
      cursor.grid = element_grid<V>(r, cursor.channel);
    }
    const ElementGrid<typename V::T> grid = cursor.grid;
    const auto grid_at = [&](int) { return grid; };
    const int64_t end = std::min<int64_t>(n, k * lanes + cursor.left);
    cursor.left -= end - int64_t{k} * lanes;
    for (; (k + int64_t{1}) * lanes <= end; ++k) {
      prefetch_row(x + k * lanes, y + k * lanes);
      quantize_row<V>(x + k * lanes, y + k * lanes, bits, k, lanes, r, grid_at);
    }
    const int rest = static_cast<int>(end) - k * lanes;
    if (rest > 0) {
      quantize_row<V>(x + k * lanes, y + k * lanes, bits, k, rest, r, grid_at);
      ++k;
    }
  }
}

/// n <= block elements, `first` being the channel of the first.
template <class V>
inline void quantize_column_block(const typename V::Element* x, typename V::Element* y,
                                  uint32_t* bits, int64_t first, int n,
                                  const QuantizeChunk<typename V::T>& r) {
  const auto row = [&](int k, int count) {
    const int at = k * lanes;
    quantize_row<V>(x + at, y + at, bits, k, count, r,
                    [&](int j) { return element_grid<V>(r, first + at + j); });
  };
  const int rows = n / lanes;
  for (int k = 0; k < rows; ++k) {
    prefetch_row(x + k * lanes, y + k * lanes);
    row(k, lanes);
  }
  if (n % lanes > 0) row(rows, n % lanes);
}

template <class V>
inline void quantize(const typename V::Element* x, typename V::Element* y, uint64_t* mask,
                     int64_t n, const QuantizeChunk<typename V::T>& r) {
  Cursor<typename V::T> cursor{r.channel, r.left > 0 ? r.left : r.segment,
                               element_grid<V>(r, V::columns ? 0 : r.channel)};
  for (int64_t i = 0; i < n; i += block) {
    const int count = static_cast<int>(std::min(block, n - i));
    alignas(64) uint32_t bits[lanes] = {};
    if constexpr (V::columns) {
      quantize_column_block<V>(x + i, y + i, bits, i, count, r);
    } else {
      quantize_block<V>(x + i, y + i, bits, count, r, cursor);
    }
    if constexpr (V::masked) {
      if (mask == nullptr) continue;
      std::memcpy(mask + i / block * mask_block_words, bits, sizeof bits);
    }
  }
}

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

/// `make` called with the flags that follow as template arguments.
template <bool... Chosen, class Make>
auto choose(const Make& make) {
  return make.template operator()<Chosen...>();
}
template <bool... Chosen, class Make, class... Flags>
auto choose(const Make& make, bool flag, Flags... flags) {
  return flag ? choose<Chosen..., true>(make, flags...)
              : choose<Chosen..., false>(make, flags...);
}

/// The version for `v`. Only the usual one, f32 without codes and shifts, has loops without a
/// mask: each version is compiled for every instruction set, and that takes its time.
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

/// Integers that order like the floats whose bits they come from: ... -0 < +0 ... < inf < NaN.
/// Integer maxima vectorise, and NaN ends up beyond an infinity, where one test finds it.
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

/// Turns bits into a key, and a key back into bits.
template <class Word>
inline Word ordered(Word bits) {
  constexpr Word magnitude = std::numeric_limits<Word>::max();
  return static_cast<Word>(bits < 0 ? bits ^ magnitude : bits);
}

template <class S>
inline bool is_finite(typename Key<S>::Word key) {
  // The key of -inf is the complement of infinity's.
  return key < Key<S>::infinity && key > ~Key<S>::infinity;
}

/// The value of a key, with zero always positive.
template <class S>
inline typename Storage<S>::Compute value_of_key(typename Key<S>::Word key) {
  using T = typename Storage<S>::Compute;
  return Storage<S>::load(std::bit_cast<S>(ordered(key))) + T(0);
}

/// The slow way, for segments that hold something not finite.
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
  const T gradient = inside ? Storage<S>::load(dy) : T(0);
  return Storage<S>::store(accumulate ? Storage<S>::load(dx) + gradient : gradient);
}

template <class S, bool accumulate>
inline void select_row(const S* dy, S* dx, const uint32_t* bits, int k, int count) {
  QTAPE_INDEPENDENT
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
          const int64_t bytes = std::min(block, n - i) * static_cast<int64_t>(sizeof(S));
          prefetch_reads(dy + i, bytes);
          prefetch_writes(dx + i, bytes);
          const int64_t rows = std::min<int64_t>(block_rows, (n - i) / lanes);
          int k = 0;
          QTAPE_INDEPENDENT
          for (; k < rows; ++k) {
            const int64_t at = i + int64_t{k} * lanes;
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
