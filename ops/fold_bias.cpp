#include "qtape/ops/fold_bias.h"

#include "qtape/ops/families/channel_norm.h"
#include "qtape/ops/families/copy.h"

namespace qtape {

static_assert(Compute<FoldBias>);

TensorType FoldBias::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  check(inputs[0].shape.rank() == 1, "beta must be [c], got {}", to_string(inputs[0].shape));
  check_channels(inputs, 1, "running_mean");
  check_channels(inputs, 2, "r");
  return inputs[0];
}

Kernel FoldBias::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [beta = b.operand<const T>(0), mean = b.operand<const T>(1),
            r = b.operand<const T>(2), y = b.y<T>(), saved = reinterpret_cast<double*>(b.saved),
            n = b.output.elements()](const Step&) {
      for (int64_t c = 0; c < n; ++c) {
        saved[c] = double{mean[c]};
        y[c] = static_cast<T>(double{beta[c]} - saved[c] * double{r[c]});
      }
    };
  });
}

Kernel FoldBias::backward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [pass = view_backward(b), dr = ChannelGradient<T>(b, 2), dy = b.dy_as<const T>(),
            mean = reinterpret_cast<const double*>(b.saved),
            n = b.output.elements()](const Step& step) {
      if (pass) pass(step);
      dr.put(n, [&](int64_t c) { return -mean[c] * double{dy[c]}; });
    };
  });
}

}  // namespace qtape
