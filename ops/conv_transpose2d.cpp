#include "qtape/ops/conv_transpose2d.h"

#include "qtape/ops/families/convolution_kernels.h"

namespace qtape {
namespace {

kernels::Conv kernel_extents(const ConvTranspose2d& op, Inputs inputs) {
  return convolution::kernel_extents(op.extents(inputs[0].shape, inputs[1].shape), true);
}

}  // namespace

static_assert(Compute<ConvTranspose2d>);

Convolution ConvTranspose2d::extents(const Shape& x, const Shape& filters) const {
  check_pair("output_padding", output_padding);
  const auto axis = [&](std::string_view text, int i) {
    return transposed_axis(text, x[1 + i], window_attributes_2d(*this, i, filters[1 + i]),
                           output_padding[i]);
  };
  return {.images = x[0],
          .groups = groups,
          .in_channels = filters[0],
          .out_channels = x[-1],
          .window = {axis("h", 0), axis("w", 1)}};
}

TensorType ConvTranspose2d::infer(Inputs inputs) const {
  check_filters(inputs, groups, "[n, h, w, c]", "[o, kh, kw, c / groups]");
  const Convolution c = extents(inputs[0].shape, inputs[1].shape);
  check_extents(c);
  return {inputs[0].dtype, {c.images, c.window.h.in, c.window.w.in, c.in_channels}};
}

Footprint ConvTranspose2d::footprint(Inputs inputs) const {
  return convolution::footprint(kernel_extents(*this, inputs), inputs[0].dtype);
}

int64_t ConvTranspose2d::bf16_scratch(Inputs inputs) const {
  return convolution::bf16_scratch(kernel_extents(*this, inputs), inputs[0].dtype, true);
}

Kernel ConvTranspose2d::forward(const Binding& b) const {
  const kernels::Conv c = kernel_extents(*this, b.inputs);
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    return convolution::kernel_of(prepare_conv_data(c, b.operand<const T>(0),
                                                    b.operand<const T>(1), b.y<T>(),
                                                    convolution::run_of(b, false)));
  });
}

Kernel ConvTranspose2d::backward(const Binding& b) const {
  return convolution::backward(kernel_extents(*this, b.inputs), b, true);
}

}  // namespace qtape
