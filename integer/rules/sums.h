// Sum, Mean, GlobalAvgPool, AvgPool and Interpolate: sums of codes. A mean has the scale of the
// codes divided by the number of terms.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// Checks that the number of terms of each sum is within the limit of requantization.
Verdict classify_sum(const Operands& operands);

template <>
struct IntegerRule<Sum> {
  static Verdict classify(const Sum&, const Operands& operands) {
    return classify_sum(operands);
  }
  static IntegerOp emit(const Sum& op, const Numbers&) {
    return integer::Sum{op.axes, op.keep_dims, false};
  }
};

template <>
struct IntegerRule<Mean> {
  static Verdict classify(const Mean&, const Operands& operands) {
    return classify_sum(operands);
  }
  static IntegerOp emit(const Mean& op, const Numbers&) {
    return integer::Sum{op.axes, op.keep_dims, true};
  }
};

template <>
struct IntegerRule<GlobalAvgPool> {
  static Verdict classify(const GlobalAvgPool&, const Operands& operands) {
    return classify_sum(operands);
  }
  static IntegerOp emit(const GlobalAvgPool& op, const Numbers& numbers) {
    return integer::Sum{GlobalAvgPool::axes(numbers.x), op.keep_dims, true};
  }
};

template <>
struct IntegerRule<AvgPool> {
  static Verdict classify(const AvgPool& op, const Operands& operands);
  static IntegerOp emit(const AvgPool& op, const Numbers&) { return integer::AvgPool{op}; }
};

template <>
struct IntegerRule<Interpolate> {
  static Verdict classify(const Interpolate& op, const Operands& operands);
  static IntegerOp emit(const Interpolate& op, const Numbers&) {
    return integer::Interpolate{op};
  }
};

}  // namespace qtape
