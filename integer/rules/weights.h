// What all products with constant weights ask of them.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// Refuses weights in operand `k`, laid out as `layout`, that integer products cannot take;
/// accumulators otherwise.
Verdict classify_product(const Operands& operands, size_t k, const WeightLayout& layout);

}  // namespace qtape
