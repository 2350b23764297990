// One pass of quantization over rows of elements, as the loops of values and of codes compile
// it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "qtape/kernels/quantize/quantize_kernels.h"
#include "qtape/kernels/simd/prefetch.h"
#include "qtape/kernels/simd/select.h"
#include "qtape/kernels/simd/vectorize.h"

namespace qtape::kernels {

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
  T code_offset;                  // of loops that write codes
};

/// What a loop is compiled for. `plain`: values out, zero point after rounding. `Code`: what
/// codes are written in besides, void for none; `values`: whether values are.
template <class S, bool HalfEven, bool Exact, bool Masked, bool Columns, bool Plain,
          class CodeType = void, bool Values = true>
struct Version {
  using Element = S;
  using T = typename Storage<S>::Compute;
  static constexpr bool half_even = HalfEven;
  static constexpr bool exact = Exact;
  static constexpr bool masked = Masked;
  static constexpr bool columns = Columns;
  static constexpr bool plain = Plain;
  using Code = CodeType;
  static constexpr bool coded = !std::is_void_v<CodeType>;
  static constexpr bool values = Values;
};

/// V with a product instead of a quotient. The two round to the same integer unless they are
/// close to a tie, which `doubtful` tells.
template <class V>
struct Guessing : V {
  static constexpr bool exact = false;
  static constexpr bool guesses = true;
};
template <class V>
inline constexpr bool guesses = requires {
  V::guesses;
};

/// What rows tell of their blocks, by lane.
struct RowFlags {
  alignas(64) uint32_t nan[lanes] = {};
  alignas(64) uint32_t doubtful[lanes] = {};

  static bool any(const uint32_t* flags) {
    uint32_t all = 0;
    for (int j = 0; j < lanes; ++j) all |= flags[j];
    return all != 0;
  }
};

/// Where a loop writes: codes go to a block in 32 bits first. Written as bytes at once, they
/// would keep GCC 12 from vectorising rows of 16 elements.
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
    // Beyond, an inverse may be subnormal or infinite: every guess is doubtful then.
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

/// clamp_near, but the lower end for NaN.
template <class T>
inline T bounded_number(T v, T low, T high) {
  const T lifted = v > low - T(1) ? v : low - T(1);
  return lifted > high + T(1) ? high + T(1) : lifted;
}

/// One element quantized; `inside` is 1 where it counts as inside the range, else 0. NaN has
/// the lowest code, and sets `nan`.
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
  // A guess for NaN is a number: it is doubtful, and told by who divides.
  const T bounded =
      guesses<V> ? bounded_number(v, e.low, e.high) : clamp_near(v, e.low, e.high);
  const T rounded = V::half_even ? round_half_even(bounded) : round_half(bounded, r.away);
  if constexpr (guesses<V>) {
    // The inverse, the product and the quotient each round once: within 3 / 2 units in the last
    // place of each other. NaN is doubtful.
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

/// Row k of a block, of `count` elements. The counter k is 32 bits wide on purpose: GCC 12
/// vectorises a loop over k wrongly where a 64-bit counter is the distance of a 32-bit shift.
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

/// One at a time: in bursts they wait for each other. `y`: what the row is written to, or null.
template <class S>
inline void prefetch_row(const S* x, S* y) {
  constexpr auto bytes = lanes * static_cast<int64_t>(sizeof(S));
  prefetch_reads(x, bytes);
  if (y != nullptr) prefetch_writes(y, bytes);
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

/// n <= block elements, `first` being the channel of the first.
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

/// The block of `count` elements at element i of a chunk.
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

/// n elements; `codes` and `nan` are written by versions that write codes. These guess where
/// the output does not overwrite x, and divide where the guess is doubtful.
template <class V>
inline void quantize(const typename V::Element* x, typename V::Element* y, uint64_t* mask,
                     int64_t n, const QuantizeChunk<typename V::T>& r,
                     [[maybe_unused]] typename V::Code* codes = nullptr,
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
      QTAPE_INDEPENDENT
      for (int k = 0; k < count; ++k) {
        codes[i + k] = static_cast<typename V::Code>(integers[k]);
      }
      if (RowFlags::any(flags.nan)) *nan = 1;
    }
    if constexpr (V::masked) {
      if (mask == nullptr) continue;
      std::memcpy(mask + i / block * mask_block_words, bits, sizeof bits);
    }
  }
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

}  // namespace qtape::kernels
