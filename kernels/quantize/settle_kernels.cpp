#include "qtape/kernels/quantize/settle_kernels.h"

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

/// Running average. Returns the current value itself if the old one does not count (cold),
/// since 0 times infinity is NaN.
template <Blend form, class T>
inline T blend(bool cold, const AverageWeights<T>& w, T old, T current) {
  T mixed = w.old * old + w.current * current;
  if constexpr (form == Blend::Difference) {
    // A difference that overflows would leave an infinite state; the sum does not overflow.
    const T step = current - old;
    const bool finite = std::fabs(step) <= std::numeric_limits<T>::max();
    mixed = finite ? old + w.current * step : mixed;
  }
  return cold ? current : mixed;
}

template <class T, StateKind kind, Scheme scheme, bool half_even, Blend form>
SettleLoop<T> settle_version() {
  return simd::best<const Settling<T>*, int64_t>([](const Settling<T>* settling, int64_t n) {
    Settling<T> s = *settling;
    s.grid.scheme = scheme;
    if (half_even) s.grid.rounding = Rounding::HalfEven;
    Grid current = s.grid;
    // Averages use the scales of the data; only the averaged scale becomes a power of two.
    if (kind == StateKind::Scale) current.power_of_two = false;
    const T of_zeros = qparams_of(ValueRange<T>{T(-1), T(1)}, current).scale;
    QTAPE_INDEPENDENT
    for (int64_t c = 0; c < n; ++c) {
      ValueRange<T> range{s.min[c], s.max[c]};
      const bool zeros = (range.min == T(0)) & (range.max == T(0));
      if constexpr (kind == StateKind::Range) {
        const ValueRange<T> old{s.first[c], s.second[c]};
        const bool never = !is_usable_range(old.min, old.max);
        const bool cold = never | is_zeros_mark(old) | (s.weights.old == T(0));
        const T min = blend<form>(cold, s.weights, old.min, range.min);
        const T max = blend<form>(cold, s.weights, old.max, range.max);
        const ValueRange<T> now{(cold & zeros) ? T(0) : min,
                                (cold & zeros) ? zeros_mark<T> : max};
        if (s.observe) s.first[c] = now.min;
        if (s.observe) s.second[c] = now.max;
        const bool use = never | s.observe;
        range = range_in_use(ValueRange<T>{use ? now.min : old.min, use ? now.max : old.max});
      }
      QParams<T> q = qparams_of(kind == StateKind::None ? batch_range(range) : range, current);
      if constexpr (kind == StateKind::Scale) {
        const T old = s.first[c];
        const bool never = !is_usable_scale(old);
        const bool cold = never | (old == zeros_mark<T>) | (s.weights.old == T(0));
        const T blended = blend<form>(cold, s.weights, old, q.scale);
        const T now = (cold & zeros) ? zeros_mark<T> : blended;
        const T used = (never | s.observe) ? now : old;
        q.scale = scale_in_use(used == zeros_mark<T> ? of_zeros : used, s.grid);
        if (s.observe) s.first[c] = now;
      }
      s.scale[c] = q.scale;
      s.zero_point[c] = q.zero_point;
      s.inverse[c] = T(1) / q.scale;
    }
  });
}

/// Rounding affects only zero points.
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
