// Leaves have no integers of their own, except inputs of indices: other inputs are quantized,
// weights are constants of a product, and a rounded bias is represented by the leaf from which
// it is computed.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <>
struct IntegerRule<Input> {
  static Verdict classify(const Input& op, const Operands&) {
    if (op.dtype == DType::S32) return {.is = Verdict::Is::Indices};
    return {};
  }
};
template <>
struct IntegerRule<FakeQuantizeBias> {
  static Verdict classify(const FakeQuantizeBias&, const Operands&) { return {}; }
};

}  // namespace qtape
