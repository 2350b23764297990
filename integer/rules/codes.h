// Ops that select codes of their operand on the same grid, such as Slice, Max and Relu; and ops
// that limit the value before it is requantized: Clamp, and Relu of integers without a grid.
#pragma once

#include <algorithm>

#include "qtape/integer/rules/rule.h"

namespace qtape {

inline Verdict classify_codes(const Operands& operands) {
  if (!operands.form(0).is_plain_codes()) return operands.refuse(0);
  return {.is = Verdict::Is::Codes};
}

/// Ops of one or more operands that exist as integer ops unchanged. Some have rules of their
/// own.
template <class X>
concept TakesCodes = is_alternative<integer::Structure<X>, IntegerOpAlternatives>;

template <TakesCodes X>
struct IntegerRule<X> {
  static constexpr bool keeps_codes = true;
  static Verdict classify(const X&, const Operands& operands) {
    const bool moves_indices = integer::Structure<X>::takes != integer::Takes::Codes;
    if (moves_indices && operands.form(0).kind == IntegerKind::Indices) {
      return {.is = Verdict::Is::Indices};
    }
    return classify_codes(operands);
  }
  static IntegerOp emit(const X& op, const Numbers&) { return integer::Structure<X>{op}; }
};

template <>
struct IntegerRule<Max> {
  static constexpr bool keeps_codes = true;
  static Verdict classify(const Max&, const Operands& operands) {
    return classify_codes(operands);
  }
  static IntegerOp emit(const Max& op, const Numbers&) {
    return integer::Max{op.axes, op.keep_dims};
  }
};

template <>
struct IntegerRule<Relu> {
  static constexpr bool keeps_codes = true;
  static Verdict classify(const Relu&, const Operands& operands) {
    if (!operands.form(0).is_integer()) return operands.refuse(0);
    if (operands.form(0).is_plain_codes()) return {.is = Verdict::Is::Codes};
    return {.is = Verdict::Is::Operand, .low = 0};
  }
  static IntegerOp emit(const Relu&, const Numbers& numbers) {
    CodeGrid positive = numbers.grid;
    positive.low = std::max(positive.low, positive.zero_point);
    return integer::Requantize{.grid = positive};
  }
};

/// The border holds the code of its value.
template <>
struct IntegerRule<Pad> {
  static constexpr bool keeps_codes = true;
  static bool rounds(const Pad& op) { return op.value != 0; }
  static Verdict classify(const Pad&, const Operands& operands) {
    return classify_codes(operands);
  }
  static IntegerOp emit(const Pad& op, const Numbers& numbers) {
    return integer::Pad{op.begin, op.end, integer::border_code(op.value, numbers.grid)};
  }
};

template <Limiting X>
struct IntegerRule<X> {
  static Verdict classify(const X& op, const Operands& operands) {
    if (!operands.form(0).is_integer()) return operands.refuse(0);
    const ValueLimits limits = op.limits();
    return {.is = Verdict::Is::Operand, .low = limits.low, .high = limits.high};
  }
};

}  // namespace qtape
