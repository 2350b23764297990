// Elementwise ops: between two quantizers they become a lookup table of codes, built by
// evaluating the op's own function on each code.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <Pointwise X>
struct IntegerRule<X> {
  static constexpr bool maps = true;

  static Verdict classify(const X&, const Operands& operands) {
    const IntegerForm& x = operands.form(0);
    const bool chained = x.kind == IntegerKind::Pending && operands.maps(x.source);
    if (x.kind != IntegerKind::Codes && !chained) return operands.refuse(0);
    return {.is = Verdict::Is::Pending};
  }
  static IntegerOp emit(const X&, const Numbers& numbers) {
    return integer::Lookup{.grid = numbers.grid, .table = numbers.table};
  }
};

}  // namespace qtape
