// Differences between the numbers of two nodes of integer programs.
#pragma once

#include <vector>

#include "qtape/deploy/compare.h"
#include "qtape/deploy/multipliers.h"
#include "qtape/integer/core/integer_value.h"

namespace qtape {

/// Returns the difference of the zero points of two kinds of codes that stand for the same
/// values, as s8 codes and the same codes as u8 do; 0 if there is no such difference.
int64_t shift_of(const IntegerValue& a, const IntegerValue& b);

/// Returns the attributes and numbers in which two nodes differ, including those that follow
/// from their operands and from the requantization; without a shift of the codes.
std::vector<NumberDifference> differing_numbers(NodeIn a, NodeIn b);
/// Returns the differences of the grids of their operands, which matter where the codes of
/// these agree.
std::vector<NumberDifference> differing_operands(NodeIn a, NodeIn b);

}  // namespace qtape
