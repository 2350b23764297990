// Vector loops that convert measured ranges to scales and zero points, many channels at a time:
// groups are small, and settling them one by one would cost more than quantizing them.
#pragma once

#include <cstdint>

#include "qtape/kernels/quantize/quantize.h"

namespace qtape::kernels {

/// Contents of the states of a quantizer.
enum class StateKind : uint8_t {
  None,   ///< no states: scales are computed from the data
  Scale,  ///< `first`: scales
  Range   ///< `first`: minima, `second`: maxima
};

/// True if `scale` is a valid divisor: positive and normal, unlike the initial 0 of a state.
template <class T>
bool is_usable_scale(T scale) {
  constexpr T least = std::numeric_limits<T>::min();
  constexpr T most = std::numeric_limits<T>::max();
  return (scale >= least) & (scale <= most);
}

/// True if observations can have produced this range: finite, min <= max, and not the initial 0
/// of a state.
template <class T>
bool is_usable_range(T min, T max) {
  const T larger = std::fabs(min) > std::fabs(max) ? std::fabs(min) : std::fabs(max);
  const T judged = min <= max ? larger : T(0);
  constexpr T most = std::numeric_limits<T>::max();
  return (judged > T(0)) & (judged <= most);
}

/// Marks a state that has observed only zeros: its scale, or its range 0 .. mark. The first
/// observation other than zero replaces it. Until then the range is [-1, 1]: any grid has a
/// code for 0, but a scale at the floor would leave no room for a bias.
template <class T>
inline constexpr T zeros_mark = std::numeric_limits<T>::min();

template <class T>
bool is_zeros_mark(const ValueRange<T>& range) {
  return (range.min == T(0)) & (range.max == zeros_mark<T>);
}
/// Range of a state: [-1, 1] if it has observed only zeros.
template <class T>
ValueRange<T> range_in_use(const ValueRange<T>& state) {
  const bool zeros = is_zeros_mark(state);
  return {zeros ? T(-1) : state.min, zeros ? T(1) : state.max};
}

/// Range of a quantizer without a state: [-1, 1] if its data are only zeros.
template <class T>
ValueRange<T> batch_range(const ValueRange<T>& data) {
  const bool zeros = (data.min == T(0)) & (data.max == T(0));
  return {zeros ? T(-1) : data.min, zeros ? T(1) : data.max};
}

/// Weights of the old state and the current value in a running average; their sum is 1.
template <class T>
struct AverageWeights {
  T old = 0;  ///< 0: only the current value counts
  T current = 1;
};

/// Formula of a running average.
enum class Blend : uint8_t {
  Sum,        ///< w.old old + w.current current
  Difference  ///< old + w.current (current - old)
};

/// Channels to settle. Pointers start at the first of them.
template <class T>
struct Settling {
  Grid grid;
  const T* min = nullptr;  ///< of the data of this call; min > max if there are none
  const T* max = nullptr;
  T* first = nullptr;  ///< states, written only if `observe`: threads may share them
  T* second = nullptr;
  T* scale = nullptr;  ///< scale in use
  T* zero_point = nullptr;
  T* inverse = nullptr;
  AverageWeights<T> weights;  ///< ignored for a state without observations
  bool observe = false;
};

/// Settles n channels: updates the states, then computes scale and zero point. A scale in use
/// is at least the floor, regardless of its state.
template <class T>
using SettleLoop = void (*)(const Settling<T>*, int64_t n);
template <class T>
SettleLoop<T> settle_loop(StateKind kind, Scheme scheme, Rounding rounding, Blend blend);

}  // namespace qtape::kernels
