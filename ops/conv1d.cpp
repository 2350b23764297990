#include "qtape/ops/conv1d.h"

#include "qtape/ops/families/convolution_kernels.h"

namespace qtape {
namespace {

kernels::Conv kernel_extents(const Conv1d& op, Inputs inputs) {
  return convolution::kernel_extents(op.extents(inputs[0].shape, inputs[1].shape), false);
}

}  // namespace

static_assert(Compute<Conv1d>);

Convolution Conv1d::extents(const Shape& x, const Shape& filters) const {
  return {.images = x[0],
          .groups = groups,
          .in_channels = x[-1],
          .out_channels = filters[0],
          .window = window_1d(*this, x, filters[1])};
}

TensorType Conv1d::infer(Inputs inputs) const {
  check_filters(inputs, groups, "[n, l, c]", "[o, k, c / groups]");
  const Convolution c = extents(inputs[0].shape, inputs[1].shape);
  check_extents(c);
  return {inputs[0].dtype, {c.images, c.window.w.out, c.out_channels}};
}

Footprint Conv1d::footprint(Inputs inputs) const {
  return convolution::footprint(kernel_extents(*this, inputs), inputs[0].dtype);
}

int64_t Conv1d::bf16_scratch(Inputs inputs) const {
  return convolution::bf16_scratch(kernel_extents(*this, inputs), inputs[0].dtype);
}

Kernel Conv1d::forward(const Binding& b) const {
  return convolution::forward(kernel_extents(*this, b.inputs), b);
}

Kernel Conv1d::backward(const Binding& b) const {
  return convolution::backward(kernel_extents(*this, b.inputs), b);
}

}  // namespace qtape
