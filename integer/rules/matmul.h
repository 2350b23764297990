// MatMul: products of codes with constant weights, or of two operands that depend on inputs.
#pragma once

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/weights.h"
#include "qtape/kernels/quantize/requantize.h"

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
    if (!operands.constant(1)) return classify_codes_product(op, operands);
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

  static IntegerOp emit(const MatMul& op, const Numbers& numbers) {
    const bool constant = numbers.weights.shape.rank() > 0;
    if (constant) return integer::Linear{.weights = numbers.weights};
    return integer::MatMul{op.transpose_a, op.transpose_b};
  }

 private:
  /// Products of two operands that depend on inputs.
  static Verdict classify_codes_product(const MatMul& op, const Operands& operands) {
    for (size_t k = 0; k < 2; ++k) {
      if (!operands.form(k).is_plain_codes()) return operands.refuse(k);
    }
    const int64_t terms = operands.shape(0)[op.transpose_a ? -2 : -1];
    if (terms > kernels::max_terms) {
      return refusal(fmt::format("accumulators may have at most 2^23 terms, got {}", terms),
                     "sum fewer products at once");
    }
    const int64_t product = span_of(operands, 0) * span_of(operands, 1);
    if (terms * product >= kernels::max_accumulator) {
      return refusal(
          fmt::format("sums of {} products of up to {} may reach 2^47", terms, product),
          "quantize an operand to 8 bits");
    }
    return {.is = Verdict::Is::Accumulators};
  }

  /// Returns the largest difference of two codes of operand k.
  static int64_t span_of(const Operands& operands, size_t k) {
    const CodeLimits limits = grid_of(operands.graph(), operands.form(k).quantizer).limits;
    return int64_t{limits.q_max} - limits.q_min;
  }
};

}  // namespace qtape
