#include "qtape/ops/fake_quantize_lsq.h"

#include <cmath>

#include "qtape/kernels/quantize/learned_start.h"
#include "qtape/ops/families/copy.h"
#include "qtape/ops/families/scale_gradients.h"

namespace qtape {
namespace {

/// Learned parameters of one node. T is float or double.
template <class T>
struct Learned {
  T* scale = nullptr;
  T* zero_point = nullptr;  // null when symmetric
  Grid grid;

  Learned(const FakeQuantizeLSQ& op, QuantizerValues values)
      : scale(reinterpret_cast<T*>(values[0])),
        zero_point(values.size() > 1 ? reinterpret_cast<T*>(values[1]) : nullptr),
        grid(grid_of(op)) {}

  void set(int64_t c, const QParams<T>& q) const {
    scale[c] = q.scale;
    if (zero_point != nullptr) zero_point[c] = q.zero_point;
  }
  /// Stored values, before floor and rounding.
  QParams<T> stored(int64_t c) const {
    return {scale[c], zero_point == nullptr ? T(0) : zero_point[c]};
  }
  QParams<T> at(int64_t c) const {
    if (only_zeros(c)) return qparams_of(ValueRange<T>{-1, 1}, grid);
    const T magnitude = std::max(std::fabs(scale[c]), static_cast<T>(grid.floor));
    if (zero_point == nullptr) return {magnitude, T(0)};
    const auto low = static_cast<T>(grid.limits.q_min);
    const auto high = static_cast<T>(grid.limits.q_max);
    return {magnitude,
            clamp_code(round_near(zero_point[c], low, high, Rounding::HalfEven), low, high)};
  }
  bool observed(int64_t c) const { return scale[c] != T(0); }
  /// True if only zeros were observed, so that the next other observation sets the scale.
  bool only_zeros(int64_t c) const {
    return observed(c) && std::fabs(scale[c]) <= zeros_mark<T>;
  }
  /// True if the data of a call do not affect the scale. `writes`: the call may set scales.
  bool settled(int64_t c, bool writes) const {
    return observed(c) && !(writes && only_zeros(c));
  }
  bool broken(int64_t c) const {
    return !std::isfinite(scale[c]) || (zero_point != nullptr && !std::isfinite(zero_point[c]));
  }
};

/// Statistics of a channel for initialisation.
struct Seen {
  Magnitudes magnitudes;
  ValueRange<double> range;
  double non_finite = 0;

  bool only_zeros() const {
    return magnitudes.sum() == 0 && magnitudes.count > 0 && non_finite == 0;
  }
  void merge(const Seen& other) {
    magnitudes.positive += other.magnitudes.positive;
    magnitudes.negative += other.magnitudes.negative;
    magnitudes.count += other.magnitudes.count;
    range.merge(other.range);
    non_finite += other.non_finite;
  }
};

template <class S>
class Forward {
 public:
  using T = typename Storage<S>::Compute;

  Forward(const FakeQuantizeLSQ& op, const Binding& b)
      : layout_(b.inputs[0].shape, granularity_of(op)),
        quantizer_(grid_of(op), layout_, quantize_chunk_of<T>(grid_of(op), layout_, op.mask),
                   false, b),
        learned_(op, b.operands.subspan(1)),
        shards_(b.division().count),
        seen_(b.division(), b.scratch, layout_.channels() * static_cast<int64_t>(sizeof(Seen))),
        copy_(view_forward(b)),
        status_(b.status) {}

  void operator()(const Step& step) const {
    const bool quantize = step.mode.quantize && status_->enabled;
    const bool observe = step.mode.observe && status_->observing;
    const bool warming = observe && step.mode.train && step.number < step.warm_up;
    status_->applied = quantize;
    if (!quantize && !observe) return copy(step);
    if (const int64_t bad = first_broken(); bad >= 0) {
      status_->fault = {"scale or zero point of channel {index} is not finite (scale {value})",
                        bad, static_cast<double>(learned_.scale[bad])};
      status_->applied = false;
      return copy(step);
    }
    if (warming || !all_settled(observe)) {
      follow_data(observe, warming ? static_cast<double>(step.number) : 0.0, warming);
    } else {
      for (int64_t c = 0; c < layout_.channels(); ++c) use(c, learned_.at(c), false);
    }
    if (quantize) return quantizer_.quantize_all();
    copy(step);
  }

 private:
  int64_t first_broken() const {
    for (int64_t c = 0; c < layout_.channels(); ++c) {
      if (learned_.broken(c)) return c;
    }
    return -1;
  }

  bool all_settled(bool observe) const {
    for (int64_t c = 0; c < layout_.channels(); ++c) {
      if (!learned_.settled(c, observe)) return false;
    }
    return true;
  }

  /// Also records the factor of the scale's gradient, since backward uses these values.
  void use(int64_t c, const QParams<T>& q, bool fixed) const {
    quantizer_.record().use(c, q);
    const T sign = std::signbit(learned_.scale[c]) ? T(-1) : T(1);
    quantizer_.record().extra[c] = fixed ? T(0) : sign;
  }

  /// Initialises channels. During warm-up, sets every channel to the mean over the warm-up
  /// steps.
  void follow_data(bool write, double steps_before, bool warming) const {
    const Seen* seen = measure();
    const T decay = static_cast<T>(steps_before / (steps_before + 1));
    for (int64_t c = 0; c < layout_.channels(); ++c) {
      const bool cold = !learned_.settled(c, write);
      if (cold && write && seen[c].only_zeros()) learned_.set(c, {zeros_mark<T>, T(0)});
      // Without observation the scale is not stored, so that it cannot be trained.
      const bool fixed = warming || (cold && !write);
      if ((!cold && !warming) || seen[c].magnitudes.sum() == 0) {
        use(c, learned_.at(c), fixed);
        continue;
      }
      const QParams<T> before = learned_.stored(c);
      QParams<T> q = initial(seen[c]);
      if (!cold) {
        q.scale = decay * std::fabs(before.scale) + (T(1) - decay) * q.scale;
        q.zero_point = decay * before.zero_point + (T(1) - decay) * q.zero_point;
      }
      learned_.set(c, q);
      use(c, learned_.at(c), fixed);
      if (!write) learned_.set(c, before);
    }
  }

  QParams<T> initial(const Seen& seen) const {
    if (!starts_by_magnitude(learned_.grid.limits)) {
      return qparams_of<T>({static_cast<T>(seen.range.min), static_cast<T>(seen.range.max)},
                           learned_.grid);
    }
    const QParams<double> q = lsq_start(seen.magnitudes, seen.range, learned_.grid);
    return {std::max(static_cast<T>(q.scale), static_cast<T>(learned_.grid.floor)),
            static_cast<T>(q.zero_point)};
  }

  /// Statistics by channel. Runs rarely, so it sums in order: equal sums on every machine.
  const Seen* measure() const {
    const int64_t elements = layout_.elements() / shards_;
    for (int64_t s = 0; s < shards_; ++s) {
      measure(s * elements, (s + 1) * elements, reinterpret_cast<Seen*>(seen_.value(s)));
    }
    const int64_t channels = layout_.channels();
    const auto* seen = reinterpret_cast<const Seen*>(
        seen_.merge([&](std::byte* first, ShardValues::Merges merges) {
          auto* values = reinterpret_cast<Seen*>(first);
          for (const ShardTree::Merge& each : merges) {
            for (int64_t c = 0; c < channels; ++c) {
              values[each.into * channels + c].merge(values[each.from * channels + c]);
            }
          }
        }));
    for (int64_t c = 0; c < channels; ++c) {
      status_->non_finite += static_cast<int64_t>(seen[c].non_finite);
    }
    return seen;
  }

  void measure(int64_t begin, int64_t end, Seen* channels) const {
    std::fill_n(channels, layout_.channels(), Seen{});
    for (int64_t i = begin; i < end; ++i) {
      Seen& seen = channels[layout_.channel_of(i)];
      const double x{Storage<S>::load(quantizer_.x()[i])};
      if (!std::isfinite(x)) {
        ++seen.non_finite;
        continue;
      }
      (x > 0 ? seen.magnitudes.positive : seen.magnitudes.negative) += std::fabs(x);
      seen.magnitudes.count += 1;
      seen.range.merge({x, x});
    }
  }

  void copy(const Step& step) const {
    if (copy_) copy_(step);
  }

  QuantizeLayout layout_;
  GridQuantizer<S> quantizer_;
  Learned<T> learned_;
  int64_t shards_;
  ShardValues seen_;  // by shard and channel
  Kernel copy_;
  NodeStatus* status_;
};

template <class S>
class Backward {
 public:
  using T = typename Storage<S>::Compute;

  Backward(const FakeQuantizeLSQ& op, const Binding& b)
      : layout_(b.inputs[0].shape, granularity_of(op)),
        gradients_(
            layout_, quantize_chunk_of<T>(grid_of(op), layout_, op.mask),
            step_size_loop<S>(op.rounding, op.division, layout_.columns(), target_of(b, 0)), b),
        record_(b.record, layout_.channels()),
        scale_(b, 1),
        zero_point_(b, 2),
        pass_(b.wanted(0) ? view_backward(b) : Kernel{}),
        status_(b.status) {
    // The tensor is that of one shard, or has no samples.
    const double per_scale = static_cast<double>(layout_.elements() * b.division().total) /
                             static_cast<double>(std::max<int64_t>(1, layout_.channels()));
    factor_ = 1 / std::sqrt(std::max(1.0, per_scale) * grid_of(op).limits.q_max);
  }

  void operator()(const Step& step) const {
    if (!status_->applied) {
      for (int64_t c = 0; c < layout_.channels(); ++c) {
        scale_.put(c, 0);
        zero_point_.put(c, 0);
      }
      if (pass_) pass_(step);
      return;
    }
    gradients_.chunk([&](int64_t c, double steps, double outside) {
      const double factor = factor_ * double{record_.extra[c]};
      scale_.put(c, factor * steps);
      const double sign_free = factor_ * std::fabs(double{record_.extra[c]});
      zero_point_.put(c, -sign_free * double{record_.scale[c]} * outside);
    });
  }

 private:
  QuantizeLayout layout_;
  ScaleGradients<S> gradients_;
  QuantizerRecord<T> record_;
  GradientSink<T> scale_;
  GradientSink<T> zero_point_;
  Kernel pass_;  // empty if in place
  NodeStatus* status_;
  double factor_ = 1;
};

template <class T>
Learned<T> learned_at(const FakeQuantizeLSQ& op, QuantizerValues values) {
  return Learned<T>(op, values);
}

}  // namespace

static_assert(Quantizer<FakeQuantizeLSQ>);

TensorType FakeQuantizeLSQ::infer(Inputs inputs) const {
  return infer_quantizer(*this, inputs);
}

void FakeQuantizeLSQ::store(const TensorType& x, std::span<const ValueRange<double>> ranges,
                            QuantizerValues values) const {
  dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    for (size_t c = 0; c < ranges.size(); ++c) {
      const ValueRange<T> seen{static_cast<T>(ranges[c].min), static_cast<T>(ranges[c].max)};
      const bool zeros = seen.min == T(0) && seen.max == T(0);
      learned_at<T>(*this, values)
          .set(static_cast<int64_t>(c),
               zeros ? QParams<T>{zeros_mark<T>, T(0)} : qparams_of(seen, grid_of(*this)));
    }
  });
}

void FakeQuantizeLSQ::store(const TensorType& x, std::span<const QParams<double>> qparams,
                            QuantizerValues values) const {
  dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    for (size_t c = 0; c < qparams.size(); ++c) {
      learned_at<T>(*this, values)
          .set(static_cast<int64_t>(c),
               {static_cast<T>(qparams[c].scale), static_cast<T>(qparams[c].zero_point)});
    }
  });
}

std::vector<QParams<double>> FakeQuantizeLSQ::load(const TensorType& x,
                                                   QuantizerValues values) const {
  return dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    const Learned<T> learned(*this, values);
    const int64_t channels = granularity_of(*this).scales_shape(x.shape).elements();
    std::vector<QParams<double>> result(static_cast<size_t>(channels), {0, 0});
    for (int64_t c = 0; c < channels; ++c) {
      if (!learned.observed(c) || learned.broken(c)) continue;
      const QParams<T> q = learned.at(c);
      result[static_cast<size_t>(c)] = {double{q.scale}, double{q.zero_point}};
    }
    return result;
  });
}

Footprint FakeQuantizeLSQ::footprint(Inputs inputs) const {
  return dispatch_float(inputs[0].dtype, [&]<class S>() -> Footprint {
    const QuantizeLayout layout(inputs[0].shape, granularity_of(*this));
    const int64_t seen = layout.channels() * static_cast<int64_t>(sizeof(Seen));
    return {.scratch = std::max(seen, ScaleGradients<S>::scratch_bytes(layout)),
            .record = QuantizerRecord<typename Storage<S>::Compute>::bytes(layout.channels())};
  });
}

int64_t FakeQuantizeLSQ::shards_scratch(Inputs inputs, const Shards& shards) const {
  const int64_t channels = QuantizeLayout(inputs[0].shape, granularity_of(*this)).channels();
  return ShardValues::bytes(shards, channels * static_cast<int64_t>(sizeof(Seen)));
}

Kernel FakeQuantizeLSQ::forward(const Binding& b) const {
  return dispatch_float(b.output.dtype,
                        [&]<class S>() -> Kernel { return Forward<S>(*this, b); });
}

Kernel FakeQuantizeLSQ::backward(const Binding& b) const {
  return dispatch_float(b.output.dtype,
                        [&]<class S>() -> Kernel { return Backward<S>(*this, b); });
}

bool FakeQuantizeLSQ::reads_data(const TensorType& x, QuantizerValues values,
                                 bool observing) const {
  return dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    const Learned<T> learned(*this, values);
    const int64_t channels = granularity_of(*this).scales_shape(x.shape).elements();
    for (int64_t c = 0; c < channels; ++c) {
      if (!learned.settled(c, observing)) return true;
    }
    return observing;  // during warm-up, scales follow the data
  });
}

}  // namespace qtape
