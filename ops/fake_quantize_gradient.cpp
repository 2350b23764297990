// Straight-through estimators of FakeQuantize.
#include <cmath>

#include "qtape/core/math.h"
#include "qtape/ops/fake_quantize.h"
#include "qtape/ops/families/copy.h"
#include "qtape/ops/families/quantizer.h"

namespace qtape {
namespace {

template <class S>
class GradientEstimator {
 public:
  using T = typename Storage<S>::Compute;

  GradientEstimator(const FakeQuantize& op, const Binding& b)
      : op_(op),
        layout_(b.inputs[0].shape, granularity_of(op)),
        select_(select_loop<S>(b.accumulate(0))),
        record_(b.record, layout_.channels()),
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
      layout_.for_each_chunk(threads_, [&](int64_t, const Chunk& chunk) {
        select_(dy_ + chunk.offset, dx_ + chunk.offset, mask_ + chunk.word, chunk.length);
      });
    } else if (status_->applied && op_.keeps_operand()) {
      layout_.for_each_chunk(threads_, [&](int64_t, const Chunk& chunk) { surrogate(chunk); });
    } else if (pass_) {
      pass_(step);
    }
  }

 private:
  void put(int64_t i, T gradient) const {
    dx_[i] = Storage<S>::store(accumulate_ ? Storage<S>::load(dx_[i]) + gradient : gradient);
  }

  void surrogate(const Chunk& chunk) const {
    for (int64_t i = chunk.offset; i < chunk.offset + chunk.length; ++i) {
      const QParams<T> q = record_.at(layout_.channel_of(i));
      const T x = Storage<S>::load(x_[i]);
      // NaN is outside the range, so its gradient is 0 for any dy.
      put(i, std::isnan(x) ? T(0) : Storage<S>::load(dy_[i]) * slope(x, q));
    }
  }

  /// Surrogate derivative at x, with the scale used in forward.
  T slope(T x, const QParams<T>& q) const {
    if (op_.ste == Ste::Tanh) return tanh_slope(x / q.scale);
    const T share = share_of_range(x, q);
    if (op_.ste == Ste::TanhRange) return tanh_slope(share);
    const T left = T(1) - std::fabs(share);
    return left < T(0) ? T(0) : left;
  }

  /// x divided by the end of the range; if affine, by the end on its side of 0.
  T share_of_range(T x, const QParams<T>& q) const {
    const auto [q_min, q_max] = grid_of(op_).limits;
    if (op_.scheme == Scheme::Symmetric) return x / (static_cast<T>(q_max) * q.scale);
    const T end = value_of(static_cast<T>(x < T(0) ? q_min : q_max), q);
    return x == T(0) ? T(0) : x / end;
  }

  static T tanh_slope(T v) {
    const double y = math::tanh(v);
    return static_cast<T>(1.0 - y * y);
  }

  FakeQuantize op_;
  QuantizeLayout layout_;
  SelectLoop<S> select_;
  QuantizerRecord<T> record_;
  const S* x_;
  const S* dy_;
  S* dx_;
  const uint64_t* mask_;
  Kernel pass_;  // empty if in place
  NodeStatus* status_;
  int threads_;
  bool accumulate_;
};

}  // namespace

bool FakeQuantize::keeps_operand() const {
  return ste == Ste::Tanh || ste == Ste::HardTanh || ste == Ste::TanhRange;
}

Kernel FakeQuantize::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  return dispatch_float(b.output.dtype,
                        [&]<class S>() -> Kernel { return GradientEstimator<S>(*this, b); });
}

}  // namespace qtape
