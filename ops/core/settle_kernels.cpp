#include "qtape/ops/core/settle_kernels.h"

#include "qtape/ops/core/isa.h"
#include "qtape/ops/core/vectorize.h"

namespace qtape {
namespace {

/// The current value itself where the old one does not count: 0 times an infinity is NaN.
template <class T>
inline T blend(bool cold, T decay, T old, T current) {
  const T mixed = decay * old + (T(1) - decay) * current;
  return (cold | (decay == T(0))) ? current : mixed;
}

template <class T, StateKind kind, Scheme scheme, bool half_even>
SettleLoop<T> settle_version() {
  return simd::best<const Settling<T>*, int64_t>([](const Settling<T>* settling, int64_t n) {
    Settling<T> s = *settling;
    s.grid.scheme = scheme;
    if (half_even) s.grid.rounding = Rounding::HalfEven;
    QTAPE_INDEPENDENT
    for (int64_t c = 0; c < n; ++c) {
      ValueRange<T> range{s.min[c], s.max[c]};
      if constexpr (kind == StateKind::Range) {
        const T old_min = s.first[c];
        const T old_max = s.second[c];
        const bool cold = !is_usable_range(old_min, old_max);
        const T min = blend(cold, s.decay, old_min, range.min);
        const T max = blend(cold, s.decay, old_max, range.max);
        s.first[c] = s.observe ? min : old_min;
        s.second[c] = s.observe ? max : old_max;
        range.min = (cold | s.observe) ? min : old_min;
        range.max = (cold | s.observe) ? max : old_max;
      }
      QParams<T> q = qparams_of(range, s.grid);
      if constexpr (kind == StateKind::Scale) {
        const bool cold = !is_usable_scale(s.first[c]);
        const T blended = blend(cold, s.decay, s.first[c], q.scale);
        q.scale = (cold | s.observe) ? blended : s.first[c];
        s.first[c] = s.observe ? blended : s.first[c];
      }
      s.scale[c] = q.scale;
      s.zero_point[c] = q.zero_point;
      s.inverse[c] = T(1) / q.scale;
    }
  });
}

/// Rounding decides zero points alone.
template <class T, StateKind kind>
SettleLoop<T> settle_version(Scheme scheme, Rounding rounding) {
  if (scheme == Scheme::Symmetric) return settle_version<T, kind, Scheme::Symmetric, true>();
  return rounding == Rounding::HalfEven ? settle_version<T, kind, Scheme::Affine, true>()
                                        : settle_version<T, kind, Scheme::Affine, false>();
}

}  // namespace

template <class T>
SettleLoop<T> settle_loop(StateKind kind, Scheme scheme, Rounding rounding) {
  switch (kind) {
    case StateKind::Scale:
      return settle_version<T, StateKind::Scale, Scheme::Symmetric, true>();
    case StateKind::Range:
      return settle_version<T, StateKind::Range>(scheme, rounding);
    case StateKind::None:
      break;
  }
  return settle_version<T, StateKind::None>(scheme, rounding);
}

template SettleLoop<float> settle_loop(StateKind, Scheme, Rounding);
template SettleLoop<double> settle_loop(StateKind, Scheme, Rounding);

}  // namespace qtape
