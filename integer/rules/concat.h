// Concat: each operand is requantized to the grid that follows, then they are joined.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <>
struct IntegerRule<Concat> {
  static constexpr bool joins = true;

  static Verdict classify(const Concat&, const Operands& operands) {
    for (size_t k = 0; k < operands.size(); ++k) {
      const IntegerForm& x = operands.form(k);
      const bool nested = x.kind == IntegerKind::Pending &&
                          (operands.maps(x.source) ||
                           std::holds_alternative<Concat>(operands.graph()[x.source].op));
      if (!x.is_integer() || nested) return operands.refuse(k);
    }
    return {.is = Verdict::Is::Pending};
  }
  static IntegerOp emit(const Concat& op, const Numbers&) { return integer::Concat{op}; }
};

}  // namespace qtape
