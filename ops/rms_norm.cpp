#include "qtape/ops/rms_norm.h"

#include "qtape/ops/families/row_norm.h"

namespace qtape {
namespace {

constexpr RowNorm rms_norm{.gamma = true};

}  // namespace

static_assert(Compute<RmsNorm>);

TensorType RmsNorm::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  check(inputs[0].shape.rank() >= 1, "x needs rank >= 1, got a scalar");
  check_channels(inputs, 1, "gamma");
  check_eps(eps);
  return inputs[0];
}

Footprint RmsNorm::footprint(Inputs inputs) const {
  return row_norm_footprint<rms_norm>(inputs[0].shape);
}

Kernel RmsNorm::forward(const Binding& b) const { return row_norm_forward<rms_norm>(b, eps); }

Kernel RmsNorm::backward(const Binding& b) const { return row_norm_backward<rms_norm>(b, eps); }

}  // namespace qtape
