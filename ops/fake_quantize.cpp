#include "qtape/ops/fake_quantize.h"

#include <array>
#include <atomic>
#include <limits>

#include "qtape/ops/fake_quantize_states.h"
#include "qtape/ops/families/copy.h"
#include "qtape/ops/families/shared_extremes.h"

namespace qtape {
namespace {

/// Settings of the running average; defaults for other modes, which do not read them.
EMA ema_of(const FakeQuantize& op) {
  const auto* ema = std::get_if<EMA>(&op.scale_mode);
  return ema == nullptr ? EMA{} : *ema;
}

/// Grid and mask of one node. PerBatch sets its scale by the largest magnitude, or by both ends
/// if affine, so these elements must not count as outside.
template <class T>
QuantizeChunk<T> chunk_of(const FakeQuantize& op, const QuantizeLayout& layout, bool gated) {
  QuantizeChunk<T> chunk = quantize_chunk_of<T>(grid_of(op), layout, op.mask);
  if (gated) chunk.gate = std::numeric_limits<T>::denorm_min();
  if (std::holds_alternative<PerBatch>(op.scale_mode)) {
    chunk.slack_high = std::numeric_limits<T>::infinity();
    if (op.scheme == Scheme::Affine) chunk.slack_low = chunk.slack_high;
  }
  return chunk;
}

template <class S>
class Forward {
 public:
  using T = typename Storage<S>::Compute;

  Forward(const FakeQuantize& op, const Binding& b)
      : op_(op),
        grid_(grid_of(op)),
        layout_(b.inputs[0].shape, granularity_of(op)),
        quantizer_(grid_of(op), layout_, chunk_of<T>(op, layout_, b.gated), op.masked(), b),
        measurement_(layout_, quantizer_.loops(), b.scratch, b.threads),
        shared_(b, layout_.channels()),
        states_(op, layout_.channels(), b.operands.subspan(1)),
        settle_(settle_loop<T>(states_.kind(), op.scheme, op.rounding,
                               ema_of(op).weight ? Blend::Difference : Blend::Sum)),
        ema_(ema_of(op)),
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
    if (ema && !observe && all_observed()) {
      use_states();
      return quantizer_.quantize_all();
    }
    const AverageWeights<T> weights = weights_at(step);
    if (ema_.delayed && observe && quantize) {
      if (!all_settled()) return observe_some(weights);
      use_states();
      return observe_all(weights);
    }
    if (layout_.chunks_are_channels() && !shared_.any()) {
      return settle_chunks(step, observe, weights, quantize);
    }
    settle_all(observe, weights);
    finish(step, quantize);
  }

 private:
  /// During warm-up, step n has weight 1 / (n + 1), which gives the plain mean of all steps.
  AverageWeights<T> weights_at(const Step& step) const {
    if (!step.mode.train || step.number >= step.warm_up) {
      const T decay = static_cast<T>(ema_.decay);
      return {decay, ema_.weight ? static_cast<T>(*ema_.weight) : T(1) - decay};
    }
    const auto n = static_cast<double>(step.number);
    const T decay = static_cast<T>(n / (n + 1));
    return {decay, ema_.weight ? static_cast<T>(1 / (n + 1)) : T(1) - decay};
  }

  bool all_observed() const {
    for (int64_t c = 0; c < states_.channels; ++c) {
      if (!states_.observed(c)) return false;
    }
    return true;
  }

  bool all_settled() const {
    for (int64_t c = 0; c < states_.channels; ++c) {
      if (!states_.settled(c)) return false;
    }
    return true;
  }

  void use_states() const {
    for (int64_t c = 0; c < states_.channels; ++c) quantizer_.record().use(c, states_.at(c));
  }

  void run_fixed(const Step& step) const {
    for (int64_t c = 0; c < states_.channels; ++c) {
      if (!states_.observed(c)) {
        return fail(step, {"scale of channel {index} is {value}; set it with set_qparams or "
                           "calibrate",
                           c, static_cast<double>(states_.first[c])});
      }
      const Fault fault = states_.fault(c);
      if (fault.text != nullptr) return fail(step, fault);
    }
    use_states();
    quantizer_.quantize_all();
  }

  void fail(const Step& step, const Fault& fault) const {
    status_->fault = fault;
    status_->applied = false;
    copy(step);
  }

  /// Settling of the channels from `first` on; writes their scales to the record.
  Settling<T> settling_at(int64_t first, const T* min, const T* max, bool observe,
                          const AverageWeights<T>& weights) const {
    const QuantizerRecord<T>& record = quantizer_.record();
    const bool states = states_.first != nullptr;
    return {.grid = grid_,
            .min = min,
            .max = max,
            .first = states ? states_.first + first : nullptr,
            .second = states_.second ? states_.second + first : nullptr,
            .scale = record.scale + first,
            .zero_point = record.zero_point + first,
            .inverse = record.inverse + first,
            .weights = weights,
            .observe = observe};
  }

  /// Computes the scales of `count` channels from their measured ranges and, while observing,
  /// updates the states. A channel without usable elements keeps its state.
  void settle(int64_t first, int64_t count, const T* min, const T* max, bool observe,
              const AverageWeights<T>& weights) const {
    const Settling<T> settling = settling_at(first, min, max, observe, weights);
    settle_(&settling, count);
  }

  void settle_one(int64_t c, const Extremes<T>& seen, bool observe,
                  const AverageWeights<T>& weights) const {
    settle(c, 1, &seen.range.min, &seen.range.max, observe && usable(seen), weights);
  }

  void settle_all(bool observe, const AverageWeights<T>& weights) const {
    const auto seen = shared_.merge(measurement_.measure(quantizer_.x()));
    for (int64_t c = 0; c < layout_.channels(); ++c) {
      settle_one(c, seen[static_cast<size_t>(c)], observe, weights);
      status_->non_finite += seen[static_cast<size_t>(c)].non_finite;
    }
  }

  /// Quantizes everything with the old states and updates them in the same pass.
  void observe_all(const AverageWeights<T>& weights) const {
    const auto seen = shared_.merge(measurement_.measure(
        quantizer_.x(), [this](const Chunk& chunk) { quantizer_.quantize(chunk); }));
    for (int64_t c = 0; c < layout_.channels(); ++c) {
      const Extremes<T>& each = seen[static_cast<size_t>(c)];
      status_->non_finite += each.non_finite;
      if (!usable(each)) continue;
      std::array<T, 3> unused = {};  // qparams of the new states, which this call does not use
      Settling<T> settling = settling_at(c, &each.range.min, &each.range.max, true, weights);
      settling.scale = &unused[0];
      settling.zero_point = &unused[1];
      settling.inverse = &unused[2];
      settle_(&settling, 1);
    }
  }

  /// Variant of observe_all if some channels have no state yet: these use their observation.
  void observe_some(const AverageWeights<T>& weights) const {
    const auto seen = shared_.merge(measurement_.measure(quantizer_.x()));
    for (int64_t c = 0; c < layout_.channels(); ++c) {
      const Extremes<T>& each = seen[static_cast<size_t>(c)];
      const bool known = states_.settled(c);
      const QParams<T> before = known ? states_.at(c) : QParams<T>{};
      settle_one(c, each, true, weights);
      if (known) quantizer_.record().use(c, before);
      status_->non_finite += each.non_finite;
    }
    quantizer_.quantize_all();
  }

  static bool usable(const Extremes<T>& seen) {
    return !seen.range.empty() && (seen.non_finite == 0 || seen.range.max_abs() > T(0));
  }

  /// One pass over memory: each chunk is quantized right after the measurement of its channels.
  void settle_chunks(const Step& step, bool observe, const AverageWeights<T>& weights,
                     bool quantize) const {
    int64_t non_finite = 0;
    layout_.for_each_chunk(threads_, [&](int64_t, const Chunk& chunk) {
      const int64_t bad = settle_chunk(chunk, observe, weights);
      if (bad > 0) std::atomic_ref(non_finite).fetch_add(bad);
      if (quantize) quantizer_.quantize(chunk);
    });
    status_->non_finite += non_finite;
    if (!quantize) finish(step, quantize);
  }

  /// Returns the number of elements that are not finite.
  int64_t settle_chunk(const Chunk& chunk, bool observe,
                       const AverageWeights<T>& weights) const {
    constexpr size_t most = quantize_chunk / mask_lanes;
    std::array<T, most> min;
    std::array<T, most> max;
    std::array<int64_t, most> non_finite;
    quantizer_.loops().measure(quantizer_.x() + chunk.offset, chunk.length, layout_.segment(),
                               min.data(), max.data(), non_finite.data());
    const int64_t channels = chunk.length / layout_.segment();
    int64_t bad = 0;
    for (int64_t k = 0; k < channels; ++k) bad += non_finite[static_cast<size_t>(k)];
    if (bad == 0) {
      settle(chunk.channel, channels, min.data(), max.data(), observe, weights);
      return 0;
    }
    for (int64_t k = 0; k < channels; ++k) {
      const auto at = static_cast<size_t>(k);
      settle_one(chunk.channel + k, {{min[at], max[at]}, non_finite[at]}, observe, weights);
    }
    return bad;
  }

  void finish(const Step& step, bool quantize) const {
    if (quantize) return quantizer_.quantize_all();
    copy(step);
  }

  void copy(const Step& step) const {
    if (copy_) copy_(step);
  }

  FakeQuantize op_;
  Grid grid_;
  QuantizeLayout layout_;
  GridQuantizer<S> quantizer_;
  Measurement<S> measurement_;
  SharedExtremes<T> shared_;
  FakeQuantizeStates<T> states_;
  SettleLoop<T> settle_;
  EMA ema_;
  Kernel copy_;  // empty if in place
  NodeStatus* status_;
  int threads_;
};

}  // namespace

static_assert(Quantizer<FakeQuantize>);

TensorType FakeQuantize::infer(Inputs inputs) const {
  if (const auto* ema = std::get_if<EMA>(&scale_mode)) {
    check(ema->decay >= 0 && ema->decay < 1, "decay must be in [0, 1), got {}", ema->decay);
    check(!ema->weight || ema->decay + *ema->weight == 1,
          "decay and weight must add up to 1, got {} and {}", ema->decay,
          ema->weight.value_or(0));
    check(scheme == Scheme::Symmetric || ema->track == Track::Range,
          "scheme Affine needs EMA with track Range, got track Scale");
  }
  return infer_quantizer(*this, inputs);
}

Keep FakeQuantize::keep() const {
  return {.operands = keeps_operand() ? 1u : 0u,
          .forward_in_place = !keeps_operand(),
          .backward_in_place = true};
}

bool FakeQuantize::masked() const {
  if (ste != Ste::ClippedIdentity) return false;
  if (!std::holds_alternative<PerBatch>(scale_mode)) return true;
  return scheme == Scheme::Symmetric && range == CodeRange::Unsigned;
}

bool FakeQuantize::tracks_range() const {
  const auto* ema = std::get_if<EMA>(&scale_mode);
  return ema != nullptr && ema->track == Track::Range;
}

Footprint FakeQuantize::footprint(Inputs inputs) const {
  return dispatch_float(inputs[0].dtype, [&]<class S>() -> Footprint {
    const QuantizeLayout layout(inputs[0].shape, granularity_of(*this));
    const auto* ema = std::get_if<EMA>(&scale_mode);
    const bool delayed = ema != nullptr && ema->delayed;
    const bool measures = delayed || (!std::holds_alternative<Fixed>(scale_mode) &&
                                      !layout.chunks_are_channels());
    return {.saved = masked() ? 8 * layout.mask_words() : 0,
            .scratch = measures ? Measurement<S>::scratch_bytes(layout) : 0,
            .record = QuantizerRecord<typename Storage<S>::Compute>::bytes(layout.channels())};
  });
}

int64_t FakeQuantize::shards_scratch(Inputs inputs, const Shards& /*shards*/) const {
  return dispatch_float(inputs[0].dtype, [&]<class S>() {
    return Measurement<S>::scratch_bytes({inputs[0].shape, granularity_of(*this)});
  });
}

Kernel FakeQuantize::forward(const Binding& b) const {
  return dispatch_float(b.output.dtype,
                        [&]<class S>() -> Kernel { return Forward<S>(*this, b); });
}

}  // namespace qtape
