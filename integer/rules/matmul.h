// MatMul: products of codes with constant weights.
#pragma once

#include "qtape/integer/rules/weights.h"

namespace qtape {

template <>
struct IntegerRule<MatMul> {
  static constexpr size_t weights = 1;

  static WeightLayout layout(const MatMul& op, const Shape& w) {
    if (op.transpose_b) return {.outputs = w[-2], .terms = w[-1], .axis = 0, .rows = true};
    return {.outputs = w[-1], .terms = w[-2], .axis = 1, .rows = false};
  }

  static Verdict classify(const MatMul& op, const Operands& operands) {
    if (!operands.constant(1) && operands.constant(0)) {
      return refusal(
          "weights must be operand 'b' of a product; here operand 'a' depends on no input",
          "swap the operands");
    }
    if (!operands.constant(1)) {
      return refusal(
          "both operands depend on inputs, but integer products need constant weights",
          "end the model before it");
    }
    if (operands.form(1).kind != IntegerKind::Weight) return operands.refuse_unquantized(1);
    if (!operands.form(0).is_plain_codes()) return operands.refuse(0);
    if (op.transpose_a) {
      return refusal("transpose_a has no integer form", "transpose it before it is quantized");
    }
    const Shape& w = operands.shape(1);
    if (w.rank() != 2) {
      return refusal(fmt::format("weights need rank 2, got {}", to_string(w)),
                     "reshape them before they are quantized");
    }
    return classify_product(operands, 1, layout(op, w));
  }

  static IntegerOp emit(const MatMul&, const Numbers& numbers) {
    return integer::Linear{.weights = numbers.weights};
  }
};

}  // namespace qtape
