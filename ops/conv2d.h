// Conv2d: convolution of images.
#pragma once

#include "qtape/ops/families/convolution.h"

namespace qtape {

struct Conv2d {
  static constexpr std::string_view name = "Conv2d";
  /// oneDNN sums in a different order on each instruction set.
  static constexpr Guarantee guarantee{.instruction_sets = false};
  static constexpr OpDocs docs{
      .summary = "Convolution of images, without a bias (see AddBias).",
      .formula =
          {"y[n, i, j, o] = the sum over ki, kj and c of x[n, i stride_h + ki dilation_h "
           "- top, j stride_w + kj dilation_w - left, g c' + c] filters[o, ki, kj, c].",
           "x is 0 outside; o is of group g, which has c' channels of x.",
           "An axis has floor((padded - span) / stride) + 1 windows, span = (kernel - 1) "
           "dilation + 1; with Same, ceil(in / stride).",
           convolution::kernels},
      .operands = {"x is f32 or f64 [n, h, w, c], filters of the same dtype [o, kh, kw, "
                   "c / groups].",
                   "y is [n, windows along h, windows along w, o].",
                   "With as many groups as channels it is a depthwise convolution."},
      .gradient = {"dx = dy times the filters, summed where windows overlap.",
                   "dfilters = dy times x, summed over images and windows, in order of pieces "
                   "of images."},
      .saves = "Both operands.",
      .edge_cases = convolution::limits,
      .source = convolution::source};

  Shape stride = {1, 1};
  Padding padding = Padding::Valid;
  Shape pads_begin = {0, 0};
  Shape pads_end = {0, 0};
  Shape dilation = {1, 1};
  int64_t groups = 1;

  static constexpr auto fields() {
    return std::tuple_cat(
        window_fields_2d<Conv2d>(),
        std::tuple{field("dilation", &Conv2d::dilation,
                         "steps between elements of a window [h, w], each at least 1"),
                   field("groups", &Conv2d::groups, "groups of channels, a divisor of both")});
  }
  std::vector<Slot> slots() const { return {{.name = "x"}, {.name = "filters"}}; }
  TensorType infer(Inputs inputs) const;
  /// Extents of the convolution, for operands accepted by `infer`.
  Convolution extents(const Shape& x, const Shape& filters) const;
  Keep keep() const { return {.operands = 0b11, .for_others = 0b11}; }
  Footprint footprint(Inputs inputs) const;
  int64_t bf16_scratch(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Conv2d&) const = default;
};

}  // namespace qtape
