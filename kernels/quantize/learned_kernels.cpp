#include "qtape/kernels/quantize/learned_kernels.h"

#include <algorithm>

#include "qtape/kernels/simd/prefetch.h"
#include "qtape/kernels/simd/select.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

// More lanes than a vector holds, so that GCC keeps a loop instead of scalars.
constexpr int lanes = 64;

/// Contributions of one element.
template <class T>
struct Terms {
  Mask<T> inside = 0;
  T first = 0;
  T second = 0;
};

/// Rounding and division of a step-size loop, selected at run time by the chunk.
struct AnyGrid {
  template <class T>
  static T quotient(T x, T scale, T inverse, const QuantizeChunk<T>& r) {
    return either(mask_of<T>(r.exact), x / scale, x * inverse);
  }
  template <class T>
  static T rounded(T v, const QuantizeChunk<T>& r) {
    return either(mask_of<T>(r.half_even), round_half_even(v), round_half(v, r.away));
  }
};
template <bool HalfEven, bool Exact>
struct OneGrid {
  template <class T>
  static T quotient(T x, T scale, T inverse, const QuantizeChunk<T>&) {
    return Exact ? x / scale : x * inverse;
  }
  template <class T>
  static T rounded(T v, const QuantizeChunk<T>& r) {
    return HalfEven ? round_half_even(v) : round_half(v, r.away);
  }
};

template <class How>
struct StepSize {
  /// Values shared by the elements of one channel.
  template <class T>
  struct Channel {
    T scale, inverse, low, high, mask_low, mask_high;
    Mask<T> by_value;
    const QuantizeChunk<T>* chunk;
  };
  template <class T>
  static Channel<T> channel(const QuantizeChunk<T>& r, int64_t c) {
    const T scale = r.scale[c];
    const T low = r.q_min - r.zero_point[c];
    const T high = r.q_max - r.zero_point[c];
    const Mask<T> by_value = mask_of<T>(r.mask_by_value);
    const T unit = either(by_value, scale, T(1));
    return {scale, r.inverse[c], low, high, low * unit, high * unit, by_value, &r};
  }
  template <class T>
  static Terms<T> terms(T x, T dy, const Channel<T>& c) {
    const T v = How::quotient(x, c.scale, c.inverse, *c.chunk);
    const T rounded = How::rounded(clamp_near(v, c.low, c.high), *c.chunk);
    const T judged = either(c.by_value, x, rounded);
    const Mask<T> inside = mask_of<T>(judged >= c.mask_low) & mask_of<T>(judged <= c.mask_high);
    const Mask<T> counts = mask_of<T>(x == x);
    const T step = clamp_code(rounded, c.low, c.high) - where(inside, v);
    return {inside, where(counts, dy * step), where(counts & ~inside, dy)};
  }
};

struct Clipping {
  template <class T>
  struct Channel {
    T alpha;
    Mask<T> is_signed;
  };
  template <class T>
  static Channel<T> channel(const QuantizeChunk<T>& r, int64_t c) {
    return {r.clip[c], mask_of<T>(r.q_min < T(0))};
  }
  /// Both ends count as outside for signed ranges. For unsigned ranges, 0 is inside.
  template <class T>
  static Terms<T> terms(T x, T dy, const Channel<T>& c) {
    const Mask<T> above = mask_of<T>(x >= c.alpha);
    const Mask<T> below = mask_of<T>(x <= -c.alpha) & c.is_signed;
    const Mask<T> negative = mask_of<T>(x < T(0)) & ~c.is_signed;
    const Mask<T> number = mask_of<T>(x == x);
    return {number & ~(above | below | negative), where(above, dy) - where(below, dy), T(0)};
  }
};

/// dx + i, or dx if it is unwanted.
template <Target target, class S>
inline S* moved(S* dx, int64_t i) {
  if constexpr (target == Target::Unwanted) return dx;
  return dx + i;
}

template <Target target, class S, class T>
inline void put(S* dx, T upstream, Mask<T> inside) {
  if constexpr (target == Target::Unwanted) return;
  const T gradient = where(inside, upstream);
  const T old = target == Target::Add ? Storage<S>::load(*dx) : T(0);
  *dx = Storage<S>::store(target == Target::Add ? old + gradient : gradient);
}

template <class Rule, Target target, class S, class T>
inline void learn_row(const S* x, const S* dy, S* dx, int count,
                      const typename Rule::template Channel<T>& c, T* first, T* second) {
  QTAPE_INDEPENDENT
  for (int j = 0; j < count; ++j) {
    const T upstream = Storage<S>::load(dy[j]);
    const Terms<T> t = Rule::template terms<T>(Storage<S>::load(x[j]), upstream, c);
    put<target>(moved<target>(dx, j), upstream, t.inside);
    first[j] += t.first;
    second[j] += t.second;
  }
}

/// Sum of all lanes, halves first.
template <class T>
inline T sum(T* a) {
  for (int width = lanes / 2; width >= 16; width /= 2) {
    for (int j = 0; j < width; ++j) a[j] += a[j + width];
  }
  T total = 0;
  for (int j = 0; j < 16; ++j) total += a[j];
  return total;
}

template <class Rule, Target target, class S, class T>
inline void learn_segments(const S* x, const S* dy, S* dx, int64_t n, const QuantizeChunk<T>& r,
                           T* first, T* second) {
  int64_t c = r.channel;
  for (int64_t begin = 0; begin < n; begin += r.segment) {
    const int64_t end = std::min(n, begin + r.segment);
    const auto channel = Rule::template channel<T>(r, c);
    alignas(64) T a[lanes] = {};
    alignas(64) T b[lanes] = {};
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      prefetch_reads(x + i, lanes * static_cast<int64_t>(sizeof(S)));
      prefetch_reads(dy + i, lanes * static_cast<int64_t>(sizeof(S)));
      learn_row<Rule, target, S, T>(x + i, dy + i, moved<target>(dx, i), lanes, channel, a, b);
    }
    learn_row<Rule, target, S, T>(x + i, dy + i, moved<target>(dx, i),
                                  static_cast<int>(end - i), channel, a, b);
    *first++ = sum(a);
    *second++ = sum(b);
    c = c + 1 == r.channels ? 0 : c + 1;
  }
}

template <class Rule, Target target, class S, class T>
inline void learn_columns(const S* x, const S* dy, S* dx, int64_t n, const QuantizeChunk<T>& r,
                          T* first, T* second) {
  QTAPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T upstream = Storage<S>::load(dy[i]);
    const Terms<T> t = Rule::template terms<T>(Storage<S>::load(x[i]), upstream,
                                               Rule::template channel<T>(r, i));
    put<target>(moved<target>(dx, i), upstream, t.inside);
    first[i] += t.first;
    second[i] += t.second;
  }
}

template <class S, class Rule, bool columns, Target target>
auto learned_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best_for<S, const S*, const S*, S*, int64_t, const QuantizeChunk<T>*, T*, T*>(
      [](const S* x, const S* dy, S* dx, int64_t n, const QuantizeChunk<T>* chunk, T* first,
         T* second) {
        const QuantizeChunk<T> r = *chunk;
        if constexpr (columns) {
          learn_columns<Rule, target>(x, dy, dx, n, r, first, second);
        } else {
          learn_segments<Rule, target>(x, dy, dx, n, r, first, second);
        }
      });
}

template <class S, class Rule, bool columns>
LearnedLoop<S> learned_loop(Target target) {
  switch (target) {
    case Target::Unwanted:
      return learned_loop<S, Rule, columns, Target::Unwanted>();
    case Target::Write:
      return learned_loop<S, Rule, columns, Target::Write>();
    case Target::Add:
      break;
  }
  return learned_loop<S, Rule, columns, Target::Add>();
}

template <class S, class Rule>
LearnedLoop<S> learned_loop(bool columns, Target target) {
  return columns ? learned_loop<S, Rule, true>(target) : learned_loop<S, Rule, false>(target);
}

}  // namespace

template <class S>
LearnedLoop<S> step_size_loop(Rounding rounding, Division division, bool columns,
                              Target target) {
  // Every version is compiled for each instruction set, so only f32 has one per grid.
  if constexpr (!std::is_same_v<S, float>) {
    return learned_loop<S, StepSize<AnyGrid>>(columns, target);
  } else {
    const bool exact = division == Division::Exact;
    if (rounding == Rounding::HalfEven) {
      return exact ? learned_loop<S, StepSize<OneGrid<true, true>>>(columns, target)
                   : learned_loop<S, StepSize<OneGrid<true, false>>>(columns, target);
    }
    return exact ? learned_loop<S, StepSize<OneGrid<false, true>>>(columns, target)
                 : learned_loop<S, StepSize<OneGrid<false, false>>>(columns, target);
  }
}

template <class S>
LearnedLoop<S> clipping_loop(bool columns, Target target) {
  return learned_loop<S, Clipping>(columns, target);
}

template LearnedLoop<float> step_size_loop(Rounding, Division, bool, Target);
template LearnedLoop<double> step_size_loop(Rounding, Division, bool, Target);
template LearnedLoop<Half> step_size_loop(Rounding, Division, bool, Target);
template LearnedLoop<BHalf> step_size_loop(Rounding, Division, bool, Target);

template LearnedLoop<float> clipping_loop(bool, Target);
template LearnedLoop<double> clipping_loop(bool, Target);
template LearnedLoop<Half> clipping_loop(bool, Target);
template LearnedLoop<BHalf> clipping_loop(bool, Target);

}  // namespace qtape::kernels
