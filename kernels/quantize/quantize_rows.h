// One pass of quantization over rows of elements, shared by the loops for values and for codes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "qtape/kernels/quantize/quantize_kernels.h"
#include "qtape/kernels/simd/prefetch.h"
#include "qtape/kernels/simd/select.h"
#include "qtape/kernels/simd/vectorize.h"

namespace qtape::kernels {

// Mask bits are transposed within a block: bit k of 32-bit lane j belongs to element 16 k + j,
// so a vector of lanes collects 32 vectors of elements without moving bits sideways. A partial
// block has fewer rows.
constexpr int lanes = static_cast<int>(mask_lanes);
constexpr int block_rows = 32;
constexpr int64_t block = int64_t{block_rows} * lanes;

/// Quantization parameters of one element. Limits are in steps relative to the zero point or,
/// if the zero point is added before rounding, relative to code 0.
template <class T>
struct ElementGrid {
  T scale, inverse, low, high;
  T mask_low, mask_high;          // limits of the rounded step, or of x with MaskRule::Value
  T shift, out_shift, out_scale;  // only in loops that are not plain
  T code_offset;                  // only in loops that write codes
};

/// Compile-time version of a loop. `plain`: writes values, zero point after rounding. `coded`:
/// codes are also written. `values`: values are written.
template <class S, bool HalfEven, bool Exact, bool Masked, bool Columns, bool Plain,
          bool Coded = false, bool Values = true>
struct Version {
  using Element = S;
  using T = typename Storage<S>::Compute;
  static constexpr bool half_even = HalfEven;
  static constexpr bool exact = Exact;
  static constexpr bool masked = Masked;
  static constexpr bool columns = Columns;
  static constexpr bool plain = Plain;
  static constexpr bool coded = Coded;
  static constexpr bool values = Values;
};

/// V with a product instead of a quotient. Both round to the same integer except close to a
/// tie, which `doubtful` flags.
template <class V>
struct Guessing : V {
  static constexpr bool exact = false;
  static constexpr bool guesses = true;
};
template <class V>
inline constexpr bool guesses = requires {
  V::guesses;
};

/// Flags that rows set for their block, by lane.
struct RowFlags {
  alignas(64) uint32_t nan[lanes] = {};
  alignas(64) uint32_t doubtful[lanes] = {};

  static bool any(const uint32_t* flags) {
    uint32_t all = 0;
    for (int j = 0; j < lanes; ++j) all |= flags[j];
    return all != 0;
  }
};

/// Output of a loop. The codes of a block are first written in 32 bits: byte stores would keep
/// GCC 12 from vectorising rows of 16 elements.
template <class V>
struct Target {
  typename V::Element* y = nullptr;
  int32_t* codes = nullptr;

  Target at(int64_t i) const {
    Target moved = *this;
    if constexpr (V::values) moved.y += i;
    if constexpr (V::coded) moved.codes += i;
    return moved;
  }
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
  if constexpr (guesses<V>) {
    // Outside this range the inverse may be subnormal or infinite; NaN makes every guess
    // doubtful.
    const bool usual = e.scale >= T(0x1p-100) && e.scale <= T(0x1p100);
    e.inverse = usual ? e.inverse : std::numeric_limits<T>::quiet_NaN();
  }
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
  if constexpr (V::coded) e.code_offset = V::plain ? zero_point : where(~before, zero_point);
  if constexpr (V::masked) {
    const T unit = either(by_value, e.scale, T(1));
    const T shift = V::plain ? T(0) : where(by_value, e.shift);
    e.mask_low = (e.low - shift - r.slack_low) * unit;
    e.mask_high = (e.high - shift + r.slack_high) * unit;
  }
  return e;
}

/// Like clamp_near, but returns the lower end for NaN.
template <class T>
inline T bounded_number(T v, T low, T high) {
  const T lifted = v > low - T(1) ? v : low - T(1);
  return lifted > high + T(1) ? high + T(1) : lifted;
}

/// Quantizes one element. `inside` becomes 1 if it counts as inside the range, else 0. NaN gets
/// the lowest code and sets `nan`.
template <class V>
inline void quantize_element(typename V::Element x, const Target<V>& to, int j,
                             const ElementGrid<typename V::T>& e,
                             const QuantizeChunk<typename V::T>& r, uint32_t& inside,
                             [[maybe_unused]] uint32_t& nan,
                             [[maybe_unused]] uint32_t& doubtful) {
  using T = typename V::T;
  const T value = Storage<typename V::Element>::load(x);
  T v = V::exact ? value / e.scale : value * e.inverse;
  if constexpr (!V::plain) v += e.shift;
  // The guess for NaN is a number, but doubtful; the division that follows flags it as NaN.
  const T bounded =
      guesses<V> ? bounded_number(v, e.low, e.high) : clamp_near(v, e.low, e.high);
  const T rounded = V::half_even ? round_half_even(bounded) : round_half(bounded, r.away);
  if constexpr (guesses<V>) {
    // The inverse, the product and the quotient are each rounded once, so guess and quotient
    // are within 3 / 2 units in the last place of each other. NaN is doubtful.
    const T from_tie = T(0.5) - std::fabs(bounded - rounded);
    doubtful |= from_tie > std::fabs(v) * T(0x1p-22) ? 0u : 1u;
  }
  if constexpr (V::masked) {
    const T judged = either(mask_of<T>(r.mask_by_value), value, rounded);
    inside = static_cast<uint32_t>(judged >= e.mask_low) &
             static_cast<uint32_t>(judged <= e.mask_high) &
             static_cast<uint32_t>(value >= r.gate);
  }
  const T code = clamp_code(rounded, e.low, e.high);
  if constexpr (V::coded) {
    if constexpr (guesses<V>) {
      to.codes[j] = static_cast<int32_t>(code + e.code_offset);
    } else {
      const bool number = code == code;
      const T integer = (number ? code : e.low) + e.code_offset;
      to.codes[j] = static_cast<int32_t>(integer);
      nan |= number ? 0u : 1u;
    }
  }
  if constexpr (V::values) {
    to.y[j] = Storage<typename V::Element>::store(
        V::plain ? code * e.scale : (code - e.out_shift) * e.out_scale);
  }
}

/// Quantizes row k of a block, `count` elements. The counter k has 32 bits on purpose: GCC 12
/// miscompiles a vectorised loop over k if a 64-bit counter is the distance of a 32-bit shift.
template <class V, class GridAt>
inline void quantize_row(const typename V::Element* x, const Target<V>& to, uint32_t* bits,
                         int k, int count, const QuantizeChunk<typename V::T>& r,
                         RowFlags& flags, const GridAt& grid_at) {
  QTAPE_INDEPENDENT
  for (int j = 0; j < count; ++j) {
    uint32_t inside = 0;
    uint32_t nan = 0;
    uint32_t doubtful = 0;
    quantize_element<V>(x[j], to, j, grid_at(j), r, inside, nan, doubtful);
    if constexpr (V::masked) bits[j] |= inside << k;
    if constexpr (V::coded && !guesses<V>) flags.nan[j] |= nan;
    if constexpr (guesses<V>) flags.doubtful[j] |= doubtful;
  }
}

/// One prefetch at a time, since bursts wait for each other. `y`: output of the row, or null.
template <class S>
inline void prefetch_row(const S* x, S* y) {
  constexpr auto bytes = lanes * static_cast<int64_t>(sizeof(S));
  prefetch_reads(x, bytes);
  if (y != nullptr) prefetch_writes(y, bytes);
}

/// Position of an iteration over segments.
template <class T>
struct Cursor {
  int64_t channel = 0;
  int64_t left = 0;  // elements left of the segment
  ElementGrid<T> grid;
};

/// Quantizes n <= block elements of segments, which end at row boundaries.
template <class V>
inline void quantize_block(const typename V::Element* x, const Target<V>& to, uint32_t* bits,
                           int n, const QuantizeChunk<typename V::T>& r, RowFlags& flags,
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
      const Target<V> row = to.at(int64_t{k} * lanes);
      prefetch_row(x + k * lanes, row.y);
      quantize_row<V>(x + k * lanes, row, bits, k, lanes, r, flags, grid_at);
    }
    const int rest = static_cast<int>(end) - k * lanes;
    if (rest > 0) {
      quantize_row<V>(x + k * lanes, to.at(int64_t{k} * lanes), bits, k, rest, r, flags,
                      grid_at);
      ++k;
    }
  }
}

/// Quantizes n <= block elements; `first` is the channel of the first.
template <class V>
inline void quantize_column_block(const typename V::Element* x, const Target<V>& to,
                                  uint32_t* bits, int64_t first, int n,
                                  const QuantizeChunk<typename V::T>& r, RowFlags& flags) {
  const auto row = [&](int k, int count) {
    const int at = k * lanes;
    quantize_row<V>(x + at, to.at(at), bits, k, count, r, flags,
                    [&](int j) { return element_grid<V>(r, first + at + j); });
  };
  const int rows = n / lanes;
  for (int k = 0; k < rows; ++k) {
    prefetch_row(x + k * lanes, to.at(int64_t{k} * lanes).y);
    row(k, lanes);
  }
  if (n % lanes > 0) row(rows, n % lanes);
}

/// Quantizes the block of `count` elements at element i of a chunk.
template <class V>
inline void quantize_any_block(const typename V::Element* x, const Target<V>& to,
                               uint32_t* bits, int64_t i, int count,
                               const QuantizeChunk<typename V::T>& r, RowFlags& flags,
                               Cursor<typename V::T>& cursor) {
  if constexpr (V::columns) {
    quantize_column_block<V>(x + i, to, bits, i, count, r, flags);
  } else {
    quantize_block<V>(x + i, to, bits, count, r, flags, cursor);
  }
}

template <class V>
inline Cursor<typename V::T> cursor_of(const QuantizeChunk<typename V::T>& r) {
  return {r.channel, r.left > 0 ? r.left : r.segment,
          element_grid<V>(r, V::columns ? 0 : r.channel)};
}

/// Stores codes in 8 or 16 bits. Signed and unsigned codes of one width have the same bits.
struct CodeStore {
  std::byte* codes = nullptr;
  int64_t bytes = 1;  ///< of a code: 1 or 2

  void store(int64_t i, const int32_t* integers, int count) const {
    bytes == 1 ? narrow<uint8_t>(i, integers, count) : narrow<uint16_t>(i, integers, count);
  }

 private:
  template <class Code>
  void narrow(int64_t i, const int32_t* integers, int count) const {
    Code* to = reinterpret_cast<Code*>(codes) + i;
    QTAPE_INDEPENDENT
    for (int k = 0; k < count; ++k) to[k] = static_cast<Code>(integers[k]);
  }
};

/// Quantizes n elements. Codes and `nan` are written only by versions that write codes. These
/// guess if the output does not overwrite x, and divide where a guess is doubtful.
template <class V>
inline void quantize(const typename V::Element* x, typename V::Element* y, uint64_t* mask,
                     int64_t n, const QuantizeChunk<typename V::T>& r,
                     [[maybe_unused]] const CodeStore& codes = {},
                     [[maybe_unused]] uint32_t* nan = nullptr) {
  constexpr bool may_guess = V::coded && V::exact && V::half_even && V::plain;
  using Guess = std::conditional_t<may_guess, Guessing<V>, V>;
  [[maybe_unused]] const bool guess = may_guess && x != y;
  auto cursor = cursor_of<V>(r);
  [[maybe_unused]] auto guess_cursor = cursor_of<Guess>(r);
  for (int64_t i = 0; i < n; i += block) {
    const int count = static_cast<int>(std::min(block, n - i));
    alignas(64) uint32_t bits[lanes] = {};
    alignas(64) int32_t integers[V::coded ? block : 1];
    RowFlags flags;
    bool done = false;
    if constexpr (may_guess) {
      if (guess) {
        const auto before = guess_cursor;
        const Target<Guess> to{.y = V::values ? y + i : nullptr, .codes = integers};
        quantize_any_block<Guess>(x, to, bits, i, count, r, flags, guess_cursor);
        done = !RowFlags::any(flags.doubtful);
        if (!done) {
          flags = {};
          for (uint32_t& lane : bits) lane = 0;
          cursor.channel = before.channel;
          cursor.left = before.left;
          cursor.grid = element_grid<V>(r, V::columns ? 0 : before.channel);
        }
      }
    }
    if (!done) {
      const Target<V> to{.y = V::values ? y + i : nullptr, .codes = integers};
      quantize_any_block<V>(x, to, bits, i, count, r, flags, cursor);
    }
    if constexpr (V::coded) {
      codes.store(i, integers, count);
      if (RowFlags::any(flags.nan)) *nan = 1;
    }
    if constexpr (V::masked) {
      if (mask == nullptr) continue;
      std::memcpy(mask + i / block * mask_block_words, bits, sizeof bits);
    }
  }
}

/// Calls `make` with the flags converted to template arguments.
template <bool... Chosen, class Make>
auto choose(const Make& make) {
  return make.template operator()<Chosen...>();
}
template <bool... Chosen, class Make, class... Flags>
auto choose(const Make& make, bool flag, Flags... flags) {
  return flag ? choose<Chosen..., true>(make, flags...)
              : choose<Chosen..., false>(make, flags...);
}

}  // namespace qtape::kernels
