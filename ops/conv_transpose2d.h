// ConvTranspose2d: transposed convolution, which upsamples images.
#pragma once

#include "qtape/ops/families/convolution.h"

namespace qtape {

struct ConvTranspose2d {
  static constexpr std::string_view name = "ConvTranspose2d";
  /// oneDNN sums in a different order on each instruction set.
  static constexpr Guarantee guarantee{.instruction_sets = false};
  static constexpr OpDocs docs{
      .summary =
          "The transpose of Conv2d: each element of x adds its filters to a window of y.",
      .formula =
          {"y[n, i stride_h + ki dilation_h - top, j stride_w + kj dilation_w - left, o] = the "
           "sum of all x[n, i, j, g c' + c] filters[o, ki, kj, c] at that position.",
           "o is of group g, which has c' channels of x.",
           "An axis of y has (in - 1) stride + (kernel - 1) dilation + 1 - padding + "
           "output_padding elements; with Same, in stride.",
           convolution::kernels},
      .operands = {"x is f32 or f64 [n, h, w, c], filters of the same dtype [o, kh, kw, "
                   "c / groups].",
                   "y is [n, elements along h, elements along w, o]."},
      .gradient = {"dx = the convolution of dy.",
                   "dfilters = x times dy, summed over images and windows: pieces of images in "
                   "their order."},
      .saves = "Both operands.",
      .edge_cases =
          "Refused: extents of 0 other than n, padding that leaves no y, channels that the "
          "groups do not divide, and padded extents of 2^31 or more.",
      .source = convolution::source};

  Shape stride = {1, 1};
  Padding padding = Padding::Valid;
  Shape pads_begin = {0, 0};
  Shape pads_end = {0, 0};
  Shape dilation = {1, 1};
  int64_t groups = 1;
  Shape output_padding = {0, 0};

  static constexpr auto fields() {
    return std::tuple_cat(
        window_fields_2d<ConvTranspose2d>(),
        std::tuple{
            field("dilation", &ConvTranspose2d::dilation,
                  "steps between elements of a window [h, w], each at least 1"),
            field("groups", &ConvTranspose2d::groups, "groups of channels, a divisor of both"),
            field("output_padding", &ConvTranspose2d::output_padding,
                  "additional elements at the end of y [h, w], each below the stride")});
  }
  std::vector<Slot> slots() const { return {{.name = "x"}, {.name = "filters"}}; }
  TensorType infer(Inputs inputs) const;
  /// Extents of the convolution from y to x, for operands accepted by `infer`.
  Convolution extents(const Shape& x, const Shape& filters) const;
  Keep keep() const { return {.operands = 0b11, .for_others = 0b11}; }
  Footprint footprint(Inputs inputs) const;
  int64_t bf16_scratch(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const ConvTranspose2d&) const = default;
};

}  // namespace qtape
