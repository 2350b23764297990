// Concat: each operand is requantized to the grid that follows, then they are joined.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <>
struct IntegerRule<Concat> {
  static constexpr bool joins = true;

  static Verdict classify(const Concat&, const Operands& operands) {
    return operands.classify_joined();
  }
  static IntegerOp emit(const Concat& op, const Numbers&) { return integer::Concat{op}; }
};

}  // namespace qtape
