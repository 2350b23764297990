#include "qtape/ops/fake_quantize.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "qtape/ops/core/copy.h"
#include "qtape/ops/core/math.h"
#include "qtape/ops/core/quantize_layout.h"

namespace qtape {
namespace {

bool keeps_operand(Ste ste) {
  return ste == Ste::Tanh || ste == Ste::HardTanh || ste == Ste::TanhRange;
}

QuantizeLayout layout_of(const FakeQuantize& op, const Shape& shape) {
  std::optional<int> axis;
  if (op.axis) axis = resolve_axis(*op.axis, shape);
  return {shape, axis};
}

/// The scales of one node: where they come from and where the ones in use are recorded.
template <class T>
struct Scales {
  T* state = nullptr;  // null with PerBatch
  T* used = nullptr;
  T* inverses = nullptr;
  int64_t channels = 1;
  T denominator = 1;
  T floor = 0;
  T decay = 0;

  /// A state that is not (0, or damaged in a file) counts as not observed yet.
  static bool is_usable(T scale) {
    return scale > T(0) && std::isfinite(scale) && std::isfinite(T(1) / scale);
  }

  void use(int64_t channel, T scale) const {
    used[channel] = scale;
    inverses[channel] = T(1) / scale;
  }

  /// Turns what was measured of a channel into its scale, and moves the state while observing.
  /// A channel in which nothing usable was seen keeps its state.
  void settle(int64_t channel, const Extremes<T>& seen, bool observe, bool empty) const {
    const T current = scale_of(seen.max_abs, denominator, floor);
    if (state == nullptr) return use(channel, current);
    const T old = state[channel];
    const bool cold = !is_usable(old);
    T scale = cold ? current : old;
    const bool usable = !empty && (seen.non_finite == 0 || seen.max_abs > T(0));
    if (observe && usable) {
      if (!cold) scale = decay * old + (T(1) - decay) * current;
      state[channel] = scale;
    }
    use(channel, scale);
  }

  /// The first channel whose state is not a usable scale, or -1.
  int64_t first_unusable() const {
    for (int64_t c = 0; c < channels; ++c) {
      if (!is_usable(state[c])) return c;
    }
    return -1;
  }

  void use_state() const {
    for (int64_t c = 0; c < channels; ++c) use(c, state[c]);
  }
};

template <class T>
Scales<T> scales_of(const FakeQuantize& op, const Binding& b) {
  Scales<T> s;
  s.channels = op.channels(b.inputs[0].shape);
  if (!std::holds_alternative<PerBatch>(op.scale_mode)) s.state = b.operand<T>(1);
  s.used = reinterpret_cast<T*>(b.record);
  s.inverses = s.used + s.channels;
  s.denominator = static_cast<T>(scale_denominator(op.limits(), op.denominator));
  s.floor = static_cast<T>(op.floor);
  if (const auto* ema = std::get_if<EMA>(&op.scale_mode)) s.decay = static_cast<T>(ema->decay);
  return s;
}

/// PerBatch sets its scale by the largest magnitude, so only the other side can lie outside.
template <class T>
QuantizeRun<T> grid_of(const FakeQuantize& op) {
  QuantizeRun<T> run;
  run.q_min = static_cast<T>(op.limits().q_min);
  run.q_max = static_cast<T>(op.limits().q_max);
  run.mask_low = run.q_min;
  run.mask_high = std::holds_alternative<PerBatch>(op.scale_mode)
                      ? std::numeric_limits<T>::infinity()
                      : run.q_max;
  run.mask_by_value = op.mask == MaskRule::Value;
  run.away = op.rounding == Rounding::HalfAway;
  return run;
}

template <class S>
class Forward {
 public:
  using T = typename Storage<S>::Compute;

  Forward(const FakeQuantize& op, const Binding& b)
      : op_(op),
        layout_(layout_of(op, b.inputs[0].shape)),
        loops_(quantize_loops<S>(op.rounding, op.division, op.masked(), layout_.per_element,
                                 false)),
        measurement_(layout_, loops_, b.scratch, b.threads),
        scales_(scales_of<T>(op, b)),
        grid_(grid_of<T>(op)),
        x_(b.operand<const S>(0)),
        y_(b.y<S>()),
        mask_(reinterpret_cast<uint64_t*>(b.saved)),
        copy_(view_forward(b)),
        status_(b.status),
        threads_(b.threads) {}

  void operator()(const Step& step) const {
    const bool quantize = step.mode.quantize && status_->enabled;
    const bool ema = std::holds_alternative<EMA>(op_.scale_mode);
    const bool observe = ema && step.mode.observe && status_->observing;
    status_->applied = quantize;
    if (!quantize && !observe) return copy(step);
    if (std::holds_alternative<Fixed>(op_.scale_mode)) return run_fixed(step);
    if (ema && !observe && scales_.first_unusable() < 0) {
      scales_.use_state();
      return quantize_all();
    }
    if (quantize && layout_.run_is_channel() && !status_->measure_noise) {
      return measure_and_quantize(observe);
    }
    measure_all(observe);
    if (quantize) return quantize_all();
    copy(step);
  }

 private:
  void run_fixed(const Step& step) const {
    const int64_t bad = scales_.first_unusable();
    if (bad >= 0) {
      status_->fault = {
          "scale of channel {index} is {value}; set it with set_qparams or observe", bad,
          static_cast<double>(scales_.state[bad])};
      status_->applied = false;
      return copy(step);
    }
    scales_.use_state();
    quantize_all();
  }

  void measure_all(bool observe) const {
    const auto seen = measurement_.measure(x_);
    for (int64_t c = 0; c < layout_.channels; ++c) {
      const auto& channel = seen[static_cast<size_t>(c)];
      scales_.settle(c, channel, observe, layout_.elements() == 0);
      status_->non_finite += channel.non_finite;
    }
  }

  /// One pass over memory: each run is quantized right after it was measured.
  void measure_and_quantize(bool observe) const {
    int64_t non_finite = 0;
    layout_.for_each_run(threads_, [&](int64_t, const Run& run) {
      Extremes<T> seen;
      loops_.measure(x_ + run.offset, run.length, &seen);
      scales_.settle(run.channel, seen, observe, run.length == 0);
      quantize(run);
      if (seen.non_finite > 0) std::atomic_ref(non_finite).fetch_add(seen.non_finite);
    });
    status_->non_finite += non_finite;
  }

  void quantize(const Run& run) const {
    QuantizeRun<T> grid = grid_;
    grid.scale = scales_.used + run.channel;
    grid.inverse = scales_.inverses + run.channel;
    uint64_t* mask = mask_ == nullptr ? nullptr : mask_ + run.word;
    loops_.quantize(x_ + run.offset, y_ + run.offset, mask, run.length, &grid);
  }

  void quantize_all() const {
    if (status_->measure_noise) status_->noise = noise();
    layout_.for_each_run(threads_, [&](int64_t, const Run& run) { quantize(run); });
  }

  void copy(const Step& step) const {
    if (copy_) copy_(step);
  }

  /// Mean of (fake(x) - x)^2 over finite x. Before quantizing: the output may overwrite x.
  double noise() const {
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < layout_.runs(); ++i) {
      const Run run = layout_.run(i);
      for (int64_t j = 0; j < run.length; ++j) {
        const T x = Storage<S>::load(x_[run.offset + j]);
        if (!std::isfinite(x)) continue;
        const int64_t c = run.channel + (layout_.per_element ? j : 0);
        const T code = code_of(x, scales_.used[c], scales_.inverses[c], op_.limits(),
                               op_.rounding, op_.division);
        const double error =
            double{Storage<S>::load(Storage<S>::store(code * scales_.used[c]))} - double{x};
        sum += error * error;
        ++count;
      }
    }
    return count > 0 ? sum / static_cast<double>(count) : 0.0;
  }

  FakeQuantize op_;
  QuantizeLayout layout_;
  QuantizeLoops<S> loops_;
  Measurement<S> measurement_;
  Scales<T> scales_;
  QuantizeRun<T> grid_;
  const S* x_;
  S* y_;
  uint64_t* mask_;
  Kernel copy_;  // empty in place
  NodeStatus* status_;
  int threads_;
};

template <class S>
class Backward {
 public:
  using T = typename Storage<S>::Compute;

  Backward(const FakeQuantize& op, const Binding& b)
      : op_(op),
        layout_(layout_of(op, b.inputs[0].shape)),
        select_(quantize_loops<S>(op.rounding, op.division, op.masked(), layout_.per_element,
                                  b.accumulate(0))
                    .select),
        q_max_(static_cast<T>(op.limits().q_max)),
        scales_(reinterpret_cast<const T*>(b.record)),
        x_(b.operand<const S>(0)),
        dy_(b.dy_as<const S>()),
        dx_(b.dx<S>(0)),
        mask_(reinterpret_cast<const uint64_t*>(b.saved)),
        pass_(view_backward(b)),
        status_(b.status),
        threads_(b.threads),
        accumulate_(b.accumulate(0)) {}

  void operator()(const Step& step) const {
    if (status_->applied && op_.masked()) {
      layout_.for_each_run(threads_, [&](int64_t, const Run& run) {
        select_(dy_ + run.offset, dx_ + run.offset, mask_ + run.word, run.length);
      });
    } else if (status_->applied && keeps_operand(op_.ste)) {
      layout_.for_each_run(threads_, [&](int64_t, const Run& run) { surrogate(run); });
    } else if (pass_) {
      pass_(step);
    }
  }

 private:
  void put(int64_t i, T gradient) const {
    dx_[i] = Storage<S>::store(accumulate_ ? Storage<S>::load(dx_[i]) + gradient : gradient);
  }

  void surrogate(const Run& run) const {
    for (int64_t j = 0; j < run.length; ++j) {
      const int64_t i = run.offset + j;
      const T scale = scales_[run.channel + (layout_.per_element ? j : 0)];
      put(i, Storage<S>::load(dy_[i]) * slope(Storage<S>::load(x_[i]), scale));
    }
  }

  /// The surrogate derivative, at x and the scale that forward used.
  T slope(T x, T scale) const {
    if (op_.ste == Ste::Tanh) return tanh_slope(x / scale);
    const T share = x / (q_max_ * scale);
    if (op_.ste == Ste::TanhRange) return tanh_slope(share);
    const T left = T(1) - std::fabs(share);
    return left < T(0) ? T(0) : left;
  }

  static T tanh_slope(T v) {
    const double y = math::tanh(v);
    return static_cast<T>(1.0 - y * y);
  }

  FakeQuantize op_;
  QuantizeLayout layout_;
  typename QuantizeLoops<S>::Select select_;
  T q_max_;
  const T* scales_;
  const S* x_;
  const S* dy_;
  S* dx_;
  const uint64_t* mask_;
  Kernel pass_;  // empty in place
  NodeStatus* status_;
  int threads_;
  bool accumulate_;
};

}  // namespace

static_assert(Compute<FakeQuantize>);

std::vector<Slot> FakeQuantize::slots() const {
  std::vector<Slot> slots = {{.name = "x"}};
  if (std::holds_alternative<PerBatch>(scale_mode)) return slots;
  const bool writes = std::holds_alternative<EMA>(scale_mode);
  slots.push_back({.name = "scale",
                   .differentiable = false,
                   .access = writes ? Access::ReadWrite : Access::Read});
  return slots;
}

TensorType FakeQuantize::infer(Inputs inputs) const {
  const TensorType& x = inputs[0];
  check(is_float(x.dtype), "expected f32, f64, f16 or bf16, got {}", to_string_view(x.dtype));
  const int fewest = range == CodeRange::Unsigned ? 1 : 2;
  check(bits >= fewest && bits <= 16, "bits must be in {}..16 for range {}, got {}", fewest,
        to_string_view(range), bits);
  if (axis) resolve_axis(*axis, x.shape);
  check(std::isfinite(floor) && floor >= double{std::numeric_limits<float>::min()} &&
            floor <= double{std::numeric_limits<float>::max()},
        "floor must be a normal f32 above 0, got {}", floor);
  if (const auto* ema = std::get_if<EMA>(&scale_mode)) {
    check(ema->decay >= 0 && ema->decay < 1, "decay must be in [0, 1), got {}", ema->decay);
  }
  if (inputs.size() > 1) {
    const TensorType expected{scale_dtype(x.dtype), Shape{channels(x.shape)}};
    check(inputs[1] == expected, "scale must be {}, got {}", to_string(expected),
          to_string(inputs[1]));
  }
  return x;
}

Keep FakeQuantize::keep() const {
  return {.operands = keeps_operand(ste) ? 1u : 0u,
          .forward_in_place = !keeps_operand(ste),
          .backward_in_place = true};
}

bool FakeQuantize::masked() const {
  if (ste != Ste::ClippedIdentity) return false;
  return !std::holds_alternative<PerBatch>(scale_mode) || range == CodeRange::Unsigned;
}

Footprint FakeQuantize::footprint(Inputs inputs) const {
  return dispatch_float(inputs[0].dtype, [&]<class S>() -> Footprint {
    const QuantizeLayout layout = layout_of(*this, inputs[0].shape);
    const auto scale = static_cast<int64_t>(sizeof(typename Storage<S>::Compute));
    return {.saved = masked() ? 8 * layout.mask_words() : 0,
            .scratch = Measurement<S>::scratch_bytes(layout),
            .record = 2 * scale * layout.channels};
  });
}

Kernel FakeQuantize::forward(const Binding& b) const {
  return dispatch_float(b.output.dtype,
                        [&]<class S>() -> Kernel { return Forward<S>(*this, b); });
}

Kernel FakeQuantize::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  return dispatch_float(b.output.dtype,
                        [&]<class S>() -> Kernel { return Backward<S>(*this, b); });
}

}  // namespace qtape
