#include "qtape/ops/batch_norm.h"

#include <optional>

#include "qtape/ops/families/channel_norm.h"

namespace qtape {
namespace {

template <class T>
class Forward {
 public:
  Forward(const BatchNorm& op, const Binding& b)
      : norm_(b),
        eps_(op.eps),
        gamma_(b.operand<const T>(1)),
        beta_(b.operand<const T>(2)),
        running_{b.operand<T>(3), b.operand<T>(4), op.momentum},
        status_(b.status) {}

  void operator()(const Step& step) const {
    const int64_t n = norm_.rows();
    status_->applied = step.mode.batch_statistics && status_->observing;
    if (status_->applied && n < 2) {
      status_->fault = too_few_elements(n);
      status_->applied = false;
    }
    using Statistics = typename ChannelNormForward<T>::Statistics;
    std::optional<Statistics> batch;
    if (status_->applied) batch = norm_.measure(running_.mean);
    const auto count = static_cast<double>(n);
    for (int64_t c = 0; c < norm_.channels(); ++c) {
      const double mean = batch ? batch->mean(c) : double{running_.mean[c]};
      const double variance = batch ? batch->variance(c) : double{running_.variance[c]};
      norm_.numbers.mean[c] = mean;
      norm_.numbers.inverse[c] = 1 / std::sqrt(variance + eps_);
      norm_.numbers.gain[c] = double{gamma_[c]};
      if (batch) running_.move(c, mean, variance, count);
    }
    norm_.normalize(beta_);
  }

 private:
  ChannelNormForward<T> norm_;
  double eps_;
  const T* gamma_;
  const T* beta_;
  RunningStatistics<T> running_;
  NodeStatus* status_;
};

}  // namespace

static_assert(Compute<BatchNorm>);

TensorType BatchNorm::infer(Inputs inputs) const { return infer_channel_norm(*this, inputs); }

Footprint BatchNorm::footprint(Inputs inputs) const {
  return channel_norm_footprint(inputs[0].shape);
}

int64_t BatchNorm::shards_scratch(Inputs inputs, const Shards& shards) const {
  return channel_norm_scratch(inputs[0].shape, shards);
}

Kernel BatchNorm::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype,
                          [&]<class T>() -> Kernel { return Forward<T>(*this, b); });
}

Kernel BatchNorm::backward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [norm = ChannelNormBackward<T>(b), dgamma = ChannelGradient<T>(b, 1),
            dbeta = ChannelGradient<T>(b, 2), status = b.status](const Step&) {
      const int64_t channels = norm.channels();
      const auto sums = norm.measure();
      norm.spread(sums, status->applied);
      dgamma.put(channels,
                 [&](int64_t c) { return sums.product[c] * norm.numbers.inverse[c]; });
      dbeta.put(channels, [&](int64_t c) { return sums.sum[c]; });
    };
  });
}

}  // namespace qtape
