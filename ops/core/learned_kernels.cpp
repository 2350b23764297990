#include "qtape/ops/core/learned_kernels.h"

#include <algorithm>

#include "qtape/ops/core/isa.h"
#include "qtape/ops/core/vectorize.h"

namespace qtape {
namespace {

constexpr int lanes = 16;

/// What one element gives.
template <class T>
struct Terms {
  bool inside = false;
  T first = 0;
  T second = 0;
};

template <bool HalfEven, bool Exact>
struct StepSize {
  template <class T>
  static Terms<T> terms(T x, T dy, const QuantizeRun<T>& r, int64_t c) {
    const T scale = r.scale[c];
    const T low = r.q_min - r.zero_point[c];
    const T high = r.q_max - r.zero_point[c];
    const T v = Exact ? x / scale : x * r.inverse[c];
    const T bounded = clamp_near(v, low, high);
    const T rounded = HalfEven ? round_half_even(bounded) : round_half(bounded, r.away);
    const T judged = r.mask_by_value ? x : rounded;
    const T unit = r.mask_by_value ? scale : T(1);
    const bool inside = (judged >= low * unit) & (judged <= high * unit);
    const bool number = x == x;
    const T clamped = clamp_code(rounded, low, high);
    const T first = dy * (inside ? clamped - v : clamped);
    return {inside, number ? first : T(0), number && !inside ? dy : T(0)};
  }
};

struct Clipping {
  template <class T>
  static Terms<T> terms(T x, T dy, const QuantizeRun<T>& r, int64_t c) {
    const T a = r.clip[c];
    const bool is_signed = r.q_min < T(0);
    const T low = is_signed ? -a : T(0);
    const bool above = x >= a;
    const bool below = is_signed & (x <= low);
    const bool inside = (x >= low) & !above & !below;
    const T first = above ? dy : below ? -dy : T(0);
    return {inside, first, T(0)};
  }
};

template <class Rule, Target target, class S, class T>
inline Terms<T> learn_element(const S* x, const S* dy, S* dx, int64_t i,
                              const QuantizeRun<T>& r, int64_t c) {
  const T upstream = Storage<S>::load(dy[i]);
  const Terms<T> t = Rule::template terms<T>(Storage<S>::load(x[i]), upstream, r, c);
  if constexpr (target == Target::Unwanted) return t;
  const T gradient = t.inside ? upstream : T(0);
  const T old = target == Target::Add ? Storage<S>::load(dx[i]) : T(0);
  dx[i] = Storage<S>::store(target == Target::Add ? old + gradient : gradient);
  return t;
}

template <class Rule, Target target, class S, class T>
inline void learn_row(const S* x, const S* dy, S* dx, int count, const QuantizeRun<T>& r,
                      int64_t c, T* first, T* second) {
  QTAPE_INDEPENDENT
  for (int j = 0; j < count; ++j) {
    const Terms<T> t = learn_element<Rule, target>(x, dy, dx, int64_t{j}, r, c);
    first[j] += t.first;
    second[j] += t.second;
  }
}

template <class Rule, Target target, class S, class T>
inline void learn_segments(const S* x, const S* dy, S* dx, int64_t n, const QuantizeRun<T>& r,
                           T* first, T* second) {
  int64_t c = r.channel;
  for (int64_t begin = 0; begin < n; begin += r.segment) {
    const int64_t end = std::min(n, begin + r.segment);
    alignas(64) T a[lanes] = {};
    alignas(64) T b[lanes] = {};
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      learn_row<Rule, target>(x + i, dy + i, dx + i, lanes, r, c, a, b);
    }
    learn_row<Rule, target>(x + i, dy + i, dx + i, static_cast<int>(end - i), r, c, a, b);
    T sum_a = 0;
    T sum_b = 0;
    for (int j = 0; j < lanes; ++j) {
      sum_a += a[j];
      sum_b += b[j];
    }
    *first++ = sum_a;
    *second++ = sum_b;
    c = c + 1 == r.channels ? 0 : c + 1;
  }
}

template <class S, class Rule, bool columns, Target target>
auto learned_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best<const S*, const S*, S*, int64_t, const QuantizeRun<T>*, T*, T*>(
      [](const S* x, const S* dy, S* dx, int64_t n, const QuantizeRun<T>* run, T* first,
         T* second) {
        const QuantizeRun<T> r = *run;
        if constexpr (columns) {
          QTAPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) {
            const Terms<T> t = learn_element<Rule, target>(x, dy, dx, i, r, i);
            first[i] += t.first;
            second[i] += t.second;
          }
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
  const bool exact = division == Division::Exact;
  if (rounding == Rounding::HalfEven) {
    return exact ? learned_loop<S, StepSize<true, true>>(columns, target)
                 : learned_loop<S, StepSize<true, false>>(columns, target);
  }
  return exact ? learned_loop<S, StepSize<false, true>>(columns, target)
               : learned_loop<S, StepSize<false, false>>(columns, target);
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

}  // namespace qtape
