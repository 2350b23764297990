// Ops of indices: ArgMax, whose result they are, and Cast, which outputs them as floats.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// Codes are compared as they are. Accumulators are compared by their values, which need no
/// grid, if they are in the shape in which they were computed.
template <>
struct IntegerRule<ArgMax> {
  static Verdict classify(const ArgMax&, const Operands& operands) {
    const IntegerForm& x = operands.form(0);
    const bool sums = x.kind == IntegerKind::Accumulators && !x.is_limited() &&
                      operands.graph()[x.source].type.shape == operands.shape(0);
    if (!x.is_plain_codes() && !sums) return operands.refuse(0);
    return {.is = Verdict::Is::Indices};
  }
  static IntegerOp emit(const ArgMax& op, const Numbers&) { return integer::ArgMax{op}; }
};

template <>
struct IntegerRule<Cast> {
  static Verdict classify(const Cast& op, const Operands& operands) {
    const IntegerForm& x = operands.form(0);
    const bool found = x.kind == IntegerKind::Indices &&
                       std::holds_alternative<ArgMax>(operands.graph()[x.source].op);
    if (found && op.dtype == DType::F32) return {.is = Verdict::Is::Operand};
    return refusal("has integers only as the f32 of an ArgMax",
                   "feed the model f32, or use an output before it");
  }
};

}  // namespace qtape
