#include "qtape/ops/l2_normalize.h"

#include "qtape/ops/families/row_norm.h"

namespace qtape {
namespace {

constexpr RowNorm l2_norm{.unit = true};

}  // namespace

static_assert(Compute<L2Normalize>);

TensorType L2Normalize::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  check(inputs[0].shape.rank() >= 1, "x needs rank >= 1, got a scalar");
  check_eps(eps);
  return inputs[0];
}

Footprint L2Normalize::footprint(Inputs inputs) const {
  return row_norm_footprint<l2_norm>(inputs[0].shape);
}

Kernel L2Normalize::forward(const Binding& b) const {
  return row_norm_forward<l2_norm>(b, eps);
}

Kernel L2Normalize::backward(const Binding& b) const {
  return row_norm_backward<l2_norm>(b, eps);
}

}  // namespace qtape
