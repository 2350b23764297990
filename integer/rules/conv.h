// Conv1d and Conv2d: filters of constant weights over windows of codes.
#pragma once

#include "qtape/integer/rules/weights.h"

namespace qtape {

/// Common part of both convolutions, which differ in the number of axes.
template <class X>
struct ConvolutionRule {
  static constexpr size_t weights = 1;

  static WeightLayout layout(const X&, const Shape& filters) {
    return {.outputs = filters[0],
            .terms = filters.elements() / std::max<int64_t>(1, filters[0]),
            .axis = 0,
            .rows = true};
  }

  static Verdict classify(const X& op, const Operands& operands) {
    if (!operands.constant(1)) {
      return refusal("the filters depend on inputs, but integer products need constant weights",
                     "end the model before it");
    }
    if (operands.form(1).kind != IntegerKind::Weight) return operands.refuse_unquantized(1);
    if (!operands.form(0).is_plain_codes()) return operands.refuse(0);
    return classify_product(operands, 1, layout(op, operands.shape(1)));
  }
};

template <>
struct IntegerRule<Conv2d> : ConvolutionRule<Conv2d> {
  static IntegerOp emit(const Conv2d& op, const Numbers& numbers) {
    const Shape& filters = numbers.weights_shape;
    return integer::Conv{.weights = numbers.weights,
                         .taps = {filters[1], filters[2]},
                         .stride = op.stride,
                         .dilation = op.dilation,
                         .padding = op.padding,
                         .pads_begin = op.pads_begin,
                         .pads_end = op.pads_end,
                         .groups = op.groups};
  }
};

template <>
struct IntegerRule<Conv1d> : ConvolutionRule<Conv1d> {
  static IntegerOp emit(const Conv1d& op, const Numbers& numbers) {
    return integer::Conv{.weights = numbers.weights,
                         .taps = {numbers.weights_shape[1]},
                         .stride = {op.stride},
                         .dilation = {op.dilation},
                         .padding = op.padding,
                         .pads_begin = {op.pad_begin},
                         .pads_end = {op.pad_end},
                         .groups = op.groups};
  }
};

}  // namespace qtape
