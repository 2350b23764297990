// BatchNorm has no integer form: it must be folded into the preceding product.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <>
struct IntegerRule<BatchNorm> {
  static Verdict classify(const BatchNorm&, const Operands&) {
    return refusal("has no integer form",
                   "fold it into the product before it: qtape fold, or fold_batch_norm");
  }
};

}  // namespace qtape
