#include "qtape/ops/fold_factor.h"

#include "qtape/ops/families/channel_norm.h"

namespace qtape {

static_assert(Compute<FoldFactor>);

TensorType FoldFactor::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  check(inputs[0].shape.rank() == 1, "gamma must be [c], got {}", to_string(inputs[0].shape));
  check_channels(inputs, 1, "running_var");
  check_eps(eps);
  return inputs[0];
}

Kernel FoldFactor::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [gamma = b.operand<const T>(0), variance = b.operand<const T>(1), r = b.y<T>(),
            inverse = reinterpret_cast<double*>(b.saved), n = b.output.elements(),
            eps = eps](const Step&) {
      for (int64_t c = 0; c < n; ++c) {
        const double s = std::sqrt(double{variance[c]} + eps);
        r[c] = static_cast<T>(double{gamma[c]} / s);
        inverse[c] = 1 / s;
      }
    };
  });
}

Kernel FoldFactor::backward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [dgamma = ChannelGradient<T>(b, 0), dr = b.dy_as<const T>(),
            inverse = reinterpret_cast<const double*>(b.saved),
            n = b.output.elements()](const Step&) {
      dgamma.put(n, [&](int64_t c) { return double{dr[c]} * inverse[c]; });
    };
  });
}

}  // namespace qtape
