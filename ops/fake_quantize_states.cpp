// Conversion between the states of a FakeQuantize and ranges or qparams, for tools.
#include "qtape/ops/fake_quantize_states.h"

namespace qtape {
namespace {

template <class T>
FakeQuantizeStates<T> states_at(const FakeQuantize& op, const TensorType& x,
                                QuantizerValues values) {
  return {op, ChannelMap(x.shape, granularity_of(op)).channels, values};
}

template <class T, class U>
ValueRange<T> converted(const ValueRange<U>& range) {
  return {static_cast<T>(range.min), static_cast<T>(range.max)};
}

}  // namespace

std::vector<QuantizerOperand> FakeQuantize::operands() const {
  if (std::holds_alternative<PerBatch>(scale_mode)) return {};
  if (std::holds_alternative<Fixed>(scale_mode)) return scale_operands(scheme);
  if (tracks_range()) return {{.name = "range", .written = true, .range = true}};
  return {{.name = "scale", .written = true}};
}

void FakeQuantize::store(const TensorType& x, std::span<const ValueRange<double>> ranges,
                         QuantizerValues values) const {
  dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    const auto states = states_at<T>(*this, x, values);
    for (int64_t c = 0; c < states.channels; ++c) {
      const ValueRange<T> seen = converted<T>(ranges[static_cast<size_t>(c)]);
      if (states.first != nullptr) states.set_seen(c, seen);
    }
  });
}

void FakeQuantize::store(const TensorType& x, std::span<const QParams<double>> qparams,
                         QuantizerValues values) const {
  dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    const auto states = states_at<T>(*this, x, values);
    for (int64_t c = 0; c < states.channels && states.first != nullptr; ++c) {
      const auto& given = qparams[static_cast<size_t>(c)];
      QParams<T> q{static_cast<T>(given.scale), static_cast<T>(given.zero_point)};
      if (!tracks_range()) {
        states.set(c, q);
        continue;
      }
      // A range narrower than that of the floor would not give back the zero point.
      q.scale = scale_in_use(q.scale, grid_of(*this));
      if (scheme == Scheme::Affine) {
        const auto [q_min, q_max] = grid_of(*this).limits;
        states.set_range(
            c, {value_of(static_cast<T>(q_min), q), value_of(static_cast<T>(q_max), q)});
      } else {
        const T end =
            q.scale * static_cast<T>(scale_denominator(grid_of(*this).limits, denominator));
        states.set_range(c, {-end, end});
      }
    }
  });
}

std::vector<QParams<double>> FakeQuantize::load(const TensorType& x,
                                                QuantizerValues values) const {
  return dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    const auto states = states_at<T>(*this, x, values);
    std::vector<QParams<double>> result(static_cast<size_t>(states.channels), {0, 0});
    for (int64_t c = 0; c < states.channels && states.first != nullptr; ++c) {
      if (!states.observed(c)) continue;
      const QParams<T> q = states.at(c);
      result[static_cast<size_t>(c)] = {double{q.scale}, double{q.zero_point}};
    }
    return result;
  });
}

bool FakeQuantize::reads_data(const TensorType& x, QuantizerValues values,
                              bool observing) const {
  if (std::holds_alternative<PerBatch>(scale_mode)) return true;
  if (std::holds_alternative<Fixed>(scale_mode)) return false;
  if (observing) return true;
  return dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    const auto states = states_at<T>(*this, x, values);
    for (int64_t c = 0; c < states.channels; ++c) {
      if (!states.observed(c)) return true;
    }
    return false;
  });
}

}  // namespace qtape
