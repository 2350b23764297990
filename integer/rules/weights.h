// Requirements of all products with constant weights.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// Refuses weights in operand `k`, laid out as `layout`, that integer products do not support;
/// returns Accumulators otherwise.
Verdict classify_product(const Operands& operands, size_t k, const WeightLayout& layout);

}  // namespace qtape
