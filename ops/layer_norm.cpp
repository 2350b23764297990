#include "qtape/ops/layer_norm.h"

#include "qtape/ops/families/row_norm.h"

namespace qtape {
namespace {

constexpr RowNorm layer_norm{.centered = true, .gamma = true, .beta = true};

}  // namespace

static_assert(Compute<LayerNorm>);

TensorType LayerNorm::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  check(inputs[0].shape.rank() >= 1, "x needs rank >= 1, got a scalar");
  check_channels(inputs, 1, "gamma");
  check_channels(inputs, 2, "beta");
  check_eps(eps);
  return inputs[0];
}

Footprint LayerNorm::footprint(Inputs inputs) const {
  return row_norm_footprint<layer_norm>(inputs[0].shape);
}

Kernel LayerNorm::forward(const Binding& b) const {
  return row_norm_forward<layer_norm>(b, eps);
}

Kernel LayerNorm::backward(const Binding& b) const {
  return row_norm_backward<layer_norm>(b, eps);
}

}  // namespace qtape
