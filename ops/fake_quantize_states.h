// The states of a FakeQuantize as read by its kernels and tools. Included only by .cpp files.
#pragma once

#include "qtape/ops/fake_quantize.h"
#include "qtape/ops/families/quantizer.h"

namespace qtape {

/// Views of a node's states: scales and zero points, or minima and then maxima. T is float or
/// double.
template <class T>
struct FakeQuantizeStates {
  T* first = nullptr;   ///< scales or minima; null with PerBatch
  T* second = nullptr;  ///< zero points or maxima; null if there are none
  int64_t channels = 1;
  Grid grid;
  bool tracks_range = false;
  bool averages = false;  ///< running averages, which may hold zeros_mark

  FakeQuantizeStates(const FakeQuantize& op, int64_t channel_count, QuantizerValues values)
      : channels(channel_count),
        grid(grid_of(op)),
        tracks_range(op.tracks_range()),
        averages(std::holds_alternative<EMA>(op.scale_mode)) {
    if (values.empty()) return;
    first = reinterpret_cast<T*>(values[0]);
    if (tracks_range) {
      second = first + channels;
    } else if (values.size() > 1) {
      second = reinterpret_cast<T*>(values[1]);
    }
  }

  StateKind kind() const {
    if (first == nullptr) return StateKind::None;
    return tracks_range ? StateKind::Range : StateKind::Scale;
  }
  ValueRange<T> range(int64_t c) const { return {first[c], second[c]}; }
  void set_range(int64_t c, const ValueRange<T>& range) const {
    first[c] = range.min;
    second[c] = range.max;
  }
  void set(int64_t c, const QParams<T>& q) const {
    first[c] = q.scale;
    if (second != nullptr) second[c] = q.zero_point;
  }
  /// Sets the state for an observation of `seen`; an observation of only zeros sets a mark.
  void set_seen(int64_t c, const ValueRange<T>& seen) const {
    const bool zeros = seen.min == T(0) && seen.max == T(0);
    if (tracks_range) return set_range(c, zeros ? ValueRange<T>{0, zeros_mark<T>} : seen);
    const ValueRange<T> range = zeros ? ValueRange<T>{-1, 1} : seen;
    QParams<T> q = qparams_of(range, grid);
    if (zeros && averages) q.scale = zeros_mark<T>;
    set(c, q);
  }
  /// Scale, at least the floor, and zero point of an observed channel.
  QParams<T> at(int64_t c) const {
    if (tracks_range) return qparams_of(range_in_use(range(c)), grid);
    if (averages && first[c] == zeros_mark<T>) return qparams_of(ValueRange<T>{-1, 1}, grid);
    return {scale_in_use(first[c], grid), second == nullptr ? T(0) : second[c]};
  }
  /// False if no observation can have produced the state (0, or damaged in a file).
  bool observed(int64_t c) const {
    return tracks_range ? is_usable_range(first[c], second[c]) : is_usable_scale(first[c]);
  }
  /// True if a value other than zeros was observed; otherwise the next observation replaces the
  /// state.
  bool settled(int64_t c) const {
    if (tracks_range) return observed(c) && !is_zeros_mark(range(c));
    return observed(c) && first[c] != zeros_mark<T>;
  }
  /// Fault of the zero point of a channel, if zero points are states.
  Fault fault(int64_t c) const {
    if (tracks_range || second == nullptr) return {};
    return zero_point_fault(second[c], grid.limits, c);
  }
};

}  // namespace qtape
