// Conv1d: convolution of sequences.
#pragma once

#include "qtape/ops/families/convolution.h"

namespace qtape {

struct Conv1d {
  static constexpr std::string_view name = "Conv1d";
  /// oneDNN sums in a different order on each instruction set.
  static constexpr Guarantee guarantee{.instruction_sets = false};
  static constexpr OpDocs docs{
      .summary = "Convolution of sequences, without a bias (see AddBias).",
      .formula = {"y[n, i, o] = the sum over k and c of x[n, i stride + k dilation - begin, "
                  "g c' + c] filters[o, k, c], where x is 0 outside; o is of group g, which "
                  "has c' channels of x.",
                  "The windows are those of Conv2d along one axis.", convolution::kernels},
      .operands = {"x is f32 or f64 [n, l, c], filters of the same dtype [o, k, c / groups].",
                   "y is [n, windows, o].",
                   "With as many groups as channels it is a depthwise convolution."},
      .gradient = {"dx = dy times the filters, summed where windows overlap.",
                   "dfilters = dy times x, summed over sequences and windows, in order of "
                   "pieces of sequences."},
      .saves = "Both operands.",
      .edge_cases = convolution::limits,
      .source = convolution::source};

  int64_t stride = 1;
  Padding padding = Padding::Valid;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
  int64_t dilation = 1;
  int64_t groups = 1;

  static constexpr auto fields() {
    return std::tuple_cat(
        window_fields_1d<Conv1d>(),
        std::tuple{field("dilation", &Conv1d::dilation,
                         "steps between elements of a window, at least 1"),
                   field("groups", &Conv1d::groups, "groups of channels, a divisor of both")});
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
  bool operator==(const Conv1d&) const = default;
};

}  // namespace qtape
