#include "qtape/kernels/quantize/settle_kernels.h"

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

/// The current value itself where the old one does not count: 0 times an infinity is NaN.
template <Blend form, class T>
inline T blend(bool cold, const AverageWeights<T>& w, T old, T current) {
  T mixed = w.old * old + w.current * current;
  if constexpr (form == Blend::Difference) {
    // A difference that overflows would leave an infinite state; the sum does not overflow.
    const T step = current - old;
    const bool finite = std::fabs(step) <= std::numeric_limits<T>::max();
    mixed = finite ? old + w.current * step : mixed;
  }
  return (cold | (w.old == T(0))) ? current : mixed;
}

template <class T, StateKind kind, Scheme scheme, bool half_even, Blend form>
SettleLoop<T> settle_version() {
  return simd::best<const Settling<T>*, int64_t>([](const Settling<T>* settling, int64_t n) {
    Settling<T> s = *settling;
    s.grid.scheme = scheme;
    if (half_even) s.grid.rounding = Rounding::HalfEven;
    Grid current = s.grid;
    // Averages are of scales as the data give them: only the average becomes a power of two.
    if (kind == StateKind::Scale) current.power_of_two = false;
    QTAPE_INDEPENDENT
    for (int64_t c = 0; c < n; ++c) {
      ValueRange<T> range{s.min[c], s.max[c]};
      if constexpr (kind == StateKind::Range) {
        const T old_min = s.first[c];
        const T old_max = s.second[c];
        const bool cold = !is_usable_range(old_min, old_max);
        const T min = blend<form>(cold, s.weights, old_min, range.min);
        const T max = blend<form>(cold, s.weights, old_max, range.max);
        s.first[c] = s.observe ? min : old_min;
        s.second[c] = s.observe ? max : old_max;
        range.min = (cold | s.observe) ? min : old_min;
        range.max = (cold | s.observe) ? max : old_max;
      }
      QParams<T> q = qparams_of(range, current);
      if constexpr (kind == StateKind::Scale) {
        const bool cold = !is_usable_scale(s.first[c]);
        const T blended = blend<form>(cold, s.weights, s.first[c], q.scale);
        q.scale = scale_in_use((cold | s.observe) ? blended : s.first[c], s.grid);
        s.first[c] = s.observe ? blended : s.first[c];
      }
      s.scale[c] = q.scale;
      s.zero_point[c] = q.zero_point;
      s.inverse[c] = T(1) / q.scale;
    }
  });
}

/// Rounding decides zero points alone.
template <class T, StateKind kind, Blend form>
SettleLoop<T> settle_version(Scheme scheme, Rounding rounding) {
  if (scheme == Scheme::Symmetric) {
    return settle_version<T, kind, Scheme::Symmetric, true, form>();
  }
  return rounding == Rounding::HalfEven
             ? settle_version<T, kind, Scheme::Affine, true, form>()
             : settle_version<T, kind, Scheme::Affine, false, form>();
}

template <class T, Blend form>
SettleLoop<T> settle_version(StateKind kind, Scheme scheme, Rounding rounding) {
  if (kind == StateKind::Range) {
    return settle_version<T, StateKind::Range, form>(scheme, rounding);
  }
  return settle_version<T, StateKind::Scale, Scheme::Symmetric, true, form>();
}

}  // namespace

template <class T>
SettleLoop<T> settle_loop(StateKind kind, Scheme scheme, Rounding rounding, Blend blend) {
  if (kind == StateKind::None) {
    return settle_version<T, StateKind::None, Blend::Sum>(scheme, rounding);
  }
  return blend == Blend::Sum ? settle_version<T, Blend::Sum>(kind, scheme, rounding)
                             : settle_version<T, Blend::Difference>(kind, scheme, rounding);
}

template SettleLoop<float> settle_loop(StateKind, Scheme, Rounding, Blend);
template SettleLoop<double> settle_loop(StateKind, Scheme, Rounding, Blend);

}  // namespace qtape::kernels
