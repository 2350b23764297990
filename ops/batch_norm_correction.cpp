#include "qtape/ops/batch_norm_correction.h"

#include "qtape/ops/families/channel_norm.h"
#include "qtape/ops/families/copy.h"

namespace qtape {
namespace {

double sign_of(double r) { return r < 0 ? -1 : r > 0 ? 1 : 0; }

template <class T>
class Forward {
 public:
  Forward(const BatchNormCorrection& op, const Binding& b)
      : norm_(b),
        eps_(op.eps),
        gamma_(b.operand<const T>(1)),
        beta_(b.operand<const T>(2)),
        r_(b.operand<const T>(3)),
        bias_(b.operand<const T>(4)),
        running_{b.operand<T>(5), b.operand<T>(6), op.momentum},
        copy_(view_forward(b)),
        status_(b.status) {}

  void operator()(const Step& step) const {
    const int64_t n = norm_.rows();
    status_->applied = step.mode.batch_statistics && status_->observing;
    if (status_->applied && n < 2) {
      status_->fault = too_few_elements(n);
      status_->applied = false;
    }
    if (!status_->applied) {
      if (copy_) copy_(step);
      return;
    }
    const auto batch = norm_.measure(running_.mean);
    for (int64_t c = 0; c < norm_.channels(); ++c) settle(c, batch, static_cast<double>(n));
    norm_.normalize(beta_);
  }

 private:
  using Statistics = typename ChannelNormForward<T>::Statistics;

  void settle(int64_t c, const Statistics& batch, double n) const {
    const double r = double{r_[c]};
    const double mean = batch.mean(c);
    const double variance = batch.variance(c);
    const double s = std::sqrt(variance + eps_ * r * r);
    norm_.numbers.mean[c] = mean;
    norm_.numbers.inverse[c] = s == 0 ? 0 : 1 / s;
    norm_.numbers.gain[c] = double{gamma_[c]} * sign_of(r);
    norm_.numbers.extra[c] = r;
    if (r != 0) running_.move(c, (mean - double{bias_[c]}) / r, variance / r / r, n);
  }

  ChannelNormForward<T> norm_;
  double eps_;
  const T* gamma_;
  const T* beta_;
  const T* r_;
  const T* bias_;
  RunningStatistics<T> running_;
  Kernel copy_;  // empty if in place
  NodeStatus* status_;
};

template <class T>
class Backward {
 public:
  Backward(const BatchNormCorrection& op, const Binding& b)
      : norm_(b),
        eps_(op.eps),
        dgamma_(b, 1),
        dbeta_(b, 2),
        dr_(b, 3),
        pass_(view_backward(b)),
        status_(b.status) {}

  void operator()(const Step& step) const {
    const int64_t channels = norm_.channels();
    if (!status_->applied) {
      const auto none = [](int64_t) { return 0.0; };
      if (pass_) pass_(step);
      for (const ChannelGradient<T>& each : {dgamma_, dbeta_, dr_}) each.put(channels, none);
      return;
    }
    const auto sums = norm_.measure();
    norm_.spread(sums, true);
    const ChannelNumbers& numbers = norm_.numbers;
    const auto along = [&](int64_t c) { return sums.product[c] * numbers.inverse[c]; };
    dgamma_.put(channels, [&](int64_t c) { return sign_of(numbers.extra[c]) * along(c); });
    dbeta_.put(channels, [&](int64_t c) { return sums.sum[c]; });
    dr_.put(channels, [&](int64_t c) {
      return -numbers.gain[c] * eps_ * numbers.extra[c] * numbers.inverse[c] *
             numbers.inverse[c] * along(c);
    });
  }

 private:
  ChannelNormBackward<T> norm_;
  double eps_;
  ChannelGradient<T> dgamma_;
  ChannelGradient<T> dbeta_;
  ChannelGradient<T> dr_;
  Kernel pass_;  // empty if in place
  NodeStatus* status_;
};

}  // namespace

static_assert(Compute<BatchNormCorrection>);

TensorType BatchNormCorrection::infer(Inputs inputs) const {
  return infer_channel_norm(*this, inputs);
}

Footprint BatchNormCorrection::footprint(Inputs inputs) const {
  return channel_norm_footprint(inputs[0].shape);
}

int64_t BatchNormCorrection::shards_scratch(Inputs inputs, const Shards& shards) const {
  return channel_norm_scratch(inputs[0].shape, shards);
}

Kernel BatchNormCorrection::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype,
                          [&]<class T>() -> Kernel { return Forward<T>(*this, b); });
}

Kernel BatchNormCorrection::backward(const Binding& b) const {
  return dispatch_compute(b.output.dtype,
                          [&]<class T>() -> Kernel { return Backward<T>(*this, b); });
}

}  // namespace qtape
