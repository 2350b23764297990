// Elementwise ops of one operand: between two quantizers they become a lookup table of codes,
// built by evaluating the op's own function on each code.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <Pointwise X>
struct IntegerRule<X> {
  static Verdict classify(const X&, const Operands& operands) {
    const NodeId codes = operands.form(0).codes;
    if (codes.index < 0) return operands.refuse(0);
    return {.is = Verdict::Is::Pending, .codes = codes};
  }
};

}  // namespace qtape
