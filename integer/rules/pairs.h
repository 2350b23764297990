// Add, Sub and Mul of two code tensors, with a third grid for the result.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// Requires two operands of plain codes with the same shape.
inline Verdict classify_pair(const Operands& operands) {
  for (size_t k = 0; k < 2; ++k) {
    if (!operands.form(k).is_plain_codes()) return operands.refuse(k);
  }
  if (operands.shape(0) != operands.shape(1)) {
    return refusal(fmt::format("operands must have the same shape, got {} and {}",
                               to_string(operands.shape(0)), to_string(operands.shape(1))),
                   "repeat the smaller one before it is quantized");
  }
  return {.is = Verdict::Is::Pending};
}

template <>
struct IntegerRule<Add> {
  static Verdict classify(const Add&, const Operands& operands) {
    return classify_pair(operands);
  }
  static IntegerOp emit(const Add&, const Numbers& numbers) {
    return integer::Add{.grid = numbers.grid};
  }
};

template <>
struct IntegerRule<Sub> {
  static Verdict classify(const Sub&, const Operands& operands) {
    return classify_pair(operands);
  }
  static IntegerOp emit(const Sub&, const Numbers& numbers) {
    return integer::Sub{.grid = numbers.grid};
  }
};

template <>
struct IntegerRule<Mul> {
  static Verdict classify(const Mul&, const Operands& operands) {
    return classify_pair(operands);
  }
  static IntegerOp emit(const Mul&, const Numbers& numbers) {
    return integer::Mul{.grid = numbers.grid};
  }
};

}  // namespace qtape
