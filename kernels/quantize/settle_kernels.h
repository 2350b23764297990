// Vector loops that turn measured ranges into scales and zero points, many channels at a time:
// groups are small, and settling them one by one would cost more than quantizing them.
#pragma once

#include <cstdint>

#include "qtape/kernels/quantize/quantize.h"

namespace qtape::kernels {

/// What a quantizer's states hold.
enum class StateKind : uint8_t {
  None,   ///< nothing: scales come from the data
  Scale,  ///< `first`: scales
  Range   ///< `first`: minima, `second`: maxima
};

/// Whether `scale` can be divided by: positive and normal, and so not a state's 0.
template <class T>
bool is_usable_scale(T scale) {
  constexpr T least = std::numeric_limits<T>::min();
  constexpr T most = std::numeric_limits<T>::max();
  return (scale >= least) & (scale <= most);
}

/// Whether an observation can have left this range: finite, in order and not the 0 of a state.
template <class T>
bool is_usable_range(T min, T max) {
  const T larger = std::fabs(min) > std::fabs(max) ? std::fabs(min) : std::fabs(max);
  const T judged = min <= max ? larger : T(0);
  constexpr T most = std::numeric_limits<T>::max();
  return (judged > T(0)) & (judged <= most);
}

/// What a state holds that saw zeros and nothing else, as its scale or the end of its range
/// 0 .. mark: the first observation that is not zero replaces it. Until then the range is
/// [-1, 1], as any grid has the code of 0, and the floor would leave no room for a bias.
template <class T>
inline constexpr T zeros_mark = std::numeric_limits<T>::min();

template <class T>
bool is_zeros_mark(const ValueRange<T>& range) {
  return (range.min == T(0)) & (range.max == zeros_mark<T>);
}
/// The range of a state: [-1, 1] where it saw nothing but zeros.
template <class T>
ValueRange<T> range_in_use(const ValueRange<T>& state) {
  const bool zeros = is_zeros_mark(state);
  return {zeros ? T(-1) : state.min, zeros ? T(1) : state.max};
}

/// What a running average gives the old state and the current value; they add up to 1.
template <class T>
struct AverageWeights {
  T old = 0;  ///< 0: the current value alone
  T current = 1;
};

/// How a running average is computed.
enum class Blend : uint8_t {
  Sum,        ///< w.old old + w.current current
  Difference  ///< old + w.current (current - old)
};

/// Channels to settle. Pointers begin at the first of them.
template <class T>
struct Settling {
  Grid grid;
  const T* min = nullptr;  ///< of this call's data; above `max` where there are none
  const T* max = nullptr;
  T* first = nullptr;  ///< states, moved when `observe`
  T* second = nullptr;
  T* scale = nullptr;  ///< what is to be used
  T* zero_point = nullptr;
  T* inverse = nullptr;
  AverageWeights<T> weights;  ///< a state never observed has none
  bool observe = false;
};

/// Settles n channels: states, then scale and zero point. A scale in use is at least the floor,
/// whatever its state is.
template <class T>
using SettleLoop = void (*)(const Settling<T>*, int64_t n);
template <class T>
SettleLoop<T> settle_loop(StateKind kind, Scheme scheme, Rounding rounding, Blend blend);

}  // namespace qtape::kernels
