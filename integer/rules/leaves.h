// Leaves have no integers of their own: inputs are quantized, weights are constants of a
// product, and a rounded bias is represented by the leaf from which it is computed.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <>
struct IntegerRule<Input> {
  static Verdict classify(const Input&, const Operands&) { return {}; }
};
template <>
struct IntegerRule<FakeQuantizeBias> {
  static Verdict classify(const FakeQuantizeBias&, const Operands&) { return {}; }
};

}  // namespace qtape
