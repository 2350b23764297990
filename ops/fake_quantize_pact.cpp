#include "qtape/ops/fake_quantize_pact.h"

#include <cmath>
#include <limits>

#include "qtape/ops/families/copy.h"
#include "qtape/ops/families/scale_gradients.h"
#include "qtape/ops/families/shared_extremes.h"

namespace qtape {
namespace {

/// Largest value that alpha must cover.
template <class T>
T largest(const ValueRange<T>& range, const Grid& grid) {
  if (range.empty()) return T(0);
  return grid.limits.q_min < 0 ? range.max_abs() : std::max(range.max, T(0));
}

/// True if nothing above 0 was observed. The next other observation sets alpha, which is 1
/// until then.
template <class T>
bool only_zeros(T alpha) {
  return alpha > T(0) && alpha <= zeros_mark<T>;
}
/// True if the data of a call do not affect alpha. `writes`: the call may set alpha.
template <class T>
bool settled(T alpha, bool writes) {
  return alpha > T(0) && !(writes && only_zeros(alpha));
}

template <class T>
QParams<T> qparams_at(T alpha, const Grid& grid) {
  if (only_zeros(alpha)) alpha = T(1);
  return {std::max(alpha / static_cast<T>(grid.limits.q_max), static_cast<T>(grid.floor)),
          T(0)};
}

template <class S>
class Forward {
 public:
  using T = typename Storage<S>::Compute;

  Forward(const FakeQuantizePACT& op, const Binding& b)
      : grid_(grid_of(op)),
        layout_(b.inputs[0].shape, granularity_of(op)),
        quantizer_(grid_, layout_, quantize_chunk_of<T>(grid_, layout_, MaskRule::Code), false,
                   b),
        measurement_(layout_, quantizer_.loops(), b.scratch, b.threads),
        shared_(b, layout_.channels()),
        alpha_(b.operand<T>(1)),
        copy_(view_forward(b)),
        status_(b.status) {}

  void operator()(const Step& step) const {
    const bool quantize = step.mode.quantize && status_->enabled;
    const bool observe = step.mode.observe && status_->observing;
    const bool warming = observe && step.mode.train && step.number < step.warm_up;
    status_->applied = quantize;
    if (!quantize && !observe) return copy(step);
    bool cold = false;
    for (int64_t c = 0; c < layout_.channels(); ++c) {
      cold = cold || !settled(alpha_[c], observe);
      if (alpha_[c] >= T(0) && std::isfinite(alpha_[c])) continue;
      status_->fault = {"alpha of channel {index} is {value}; it must be above 0", c,
                        static_cast<double>(alpha_[c])};
      status_->applied = false;
      return copy(step);
    }
    if (cold || warming) {
      follow_data(observe, static_cast<double>(step.number), warming);
    } else {
      for (int64_t c = 0; c < layout_.channels(); ++c) use(c, alpha_[c]);
    }
    if (quantize) return quantizer_.quantize_all();
    copy(step);
  }

 private:
  /// Backward clips at the alpha used in forward. NaN clips nothing: an alpha that is not
  /// initialised, or that follows the data during warm-up, gets no gradient.
  void use(int64_t c, T alpha, bool follows = false) const {
    quantizer_.record().use(c, qparams_at(alpha, grid_));
    const bool trained = settled(alpha, true) && !follows;
    quantizer_.record().extra[c] = trained ? alpha : std::numeric_limits<T>::quiet_NaN();
  }

  void follow_data(bool write, double steps_before, bool warming) const {
    const auto seen = shared_.merge(measurement_.measure(quantizer_.x()));
    const T decay = static_cast<T>(steps_before / (steps_before + 1));
    for (int64_t c = 0; c < layout_.channels(); ++c) {
      const Extremes<T>& channel = seen[static_cast<size_t>(c)];
      const T current = largest(channel.range, grid_);
      status_->non_finite += channel.non_finite;
      T alpha = alpha_[c];
      const bool zeros = current == T(0) && !channel.range.empty() && channel.non_finite == 0;
      // Without observation alpha is not stored, so that it cannot be trained.
      const bool borrowed = !write && !settled(alpha, write);
      if (!settled(alpha, write)) {
        alpha = current > T(0) ? current : zeros && write ? zeros_mark<T> : alpha;
      } else if (warming && current > T(0)) {
        alpha = decay * alpha + (T(1) - decay) * current;
      }
      if (write) alpha_[c] = alpha;
      use(c, alpha, warming || borrowed);
    }
  }

  void copy(const Step& step) const {
    if (copy_) copy_(step);
  }

  Grid grid_;
  QuantizeLayout layout_;
  GridQuantizer<S> quantizer_;
  Measurement<S> measurement_;
  SharedExtremes<T> shared_;
  T* alpha_;
  Kernel copy_;
  NodeStatus* status_;
};

template <class S>
class Backward {
 public:
  using T = typename Storage<S>::Compute;

  Backward(const FakeQuantizePACT& op, const Binding& b)
      : layout_(b.inputs[0].shape, granularity_of(op)),
        gradients_(layout_, quantize_chunk_of<T>(grid_of(op), layout_, MaskRule::Code),
                   clipping_loop<S>(layout_.columns(), target_of(b, 0)), b),
        alpha_(b, 1),
        pass_(b.wanted(0) ? view_backward(b) : Kernel{}),
        status_(b.status) {}

  void operator()(const Step& step) const {
    if (status_->applied) {
      gradients_.chunk([&](int64_t c, double sum, double) { alpha_.put(c, sum); });
      return;
    }
    for (int64_t c = 0; c < layout_.channels(); ++c) alpha_.put(c, 0);
    if (pass_) pass_(step);
  }

 private:
  QuantizeLayout layout_;
  ScaleGradients<S> gradients_;
  GradientSink<T> alpha_;
  Kernel pass_;  // empty if in place
  NodeStatus* status_;
};

}  // namespace

static_assert(Quantizer<FakeQuantizePACT>);

TensorType FakeQuantizePACT::infer(Inputs inputs) const {
  check(range != CodeRange::Full, "range must be Unsigned or Narrow, got Full");
  return infer_quantizer(*this, inputs);
}

void FakeQuantizePACT::store(const TensorType& x, std::span<const ValueRange<double>> ranges,
                             QuantizerValues values) const {
  dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    T* alpha = reinterpret_cast<T*>(values[0]);
    for (size_t c = 0; c < ranges.size(); ++c) {
      const T seen = static_cast<T>(largest(ranges[c], grid_of(*this)));
      alpha[c] = seen == T(0) && !ranges[c].empty() ? zeros_mark<T> : seen;
    }
  });
}

void FakeQuantizePACT::store(const TensorType& x, std::span<const QParams<double>> qparams,
                             QuantizerValues values) const {
  dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    T* alpha = reinterpret_cast<T*>(values[0]);
    for (size_t c = 0; c < qparams.size(); ++c) {
      alpha[c] = static_cast<T>(qparams[c].scale) * static_cast<T>(grid_of(*this).limits.q_max);
    }
  });
}

std::vector<QParams<double>> FakeQuantizePACT::load(const TensorType& x,
                                                    QuantizerValues values) const {
  return dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    const T* alpha = reinterpret_cast<const T*>(values[0]);
    const int64_t channels = granularity_of(*this).scales_shape(x.shape).elements();
    std::vector<QParams<double>> result(static_cast<size_t>(channels), {0, 0});
    for (int64_t c = 0; c < channels; ++c) {
      if (alpha[c] > T(0))
        result[static_cast<size_t>(c)].scale = qparams_at(alpha[c], grid_of(*this)).scale;
    }
    return result;
  });
}

Footprint FakeQuantizePACT::footprint(Inputs inputs) const {
  return dispatch_float(inputs[0].dtype, [&]<class S>() -> Footprint {
    const QuantizeLayout layout(inputs[0].shape, granularity_of(*this));
    return {.scratch = std::max(Measurement<S>::scratch_bytes(layout),
                                ScaleGradients<S>::scratch_bytes(layout)),
            .record = QuantizerRecord<typename Storage<S>::Compute>::bytes(layout.channels())};
  });
}

Kernel FakeQuantizePACT::forward(const Binding& b) const {
  return dispatch_float(b.output.dtype,
                        [&]<class S>() -> Kernel { return Forward<S>(*this, b); });
}

Kernel FakeQuantizePACT::backward(const Binding& b) const {
  return dispatch_float(b.output.dtype,
                        [&]<class S>() -> Kernel { return Backward<S>(*this, b); });
}

bool FakeQuantizePACT::reads_data(const TensorType& x, QuantizerValues values,
                                  bool observing) const {
  return dispatch_compute(scale_dtype(x.dtype), [&]<class T>() {
    const T* alpha = reinterpret_cast<const T*>(values[0]);
    const int64_t channels = granularity_of(*this).scales_shape(x.shape).elements();
    for (int64_t c = 0; c < channels; ++c) {
      if (!settled(alpha[c], observing)) return true;
    }
    return observing;  // during warm-up, alpha follows the data
  });
}

}  // namespace qtape
