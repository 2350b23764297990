// Values that no quantizer can hold: infinite constants, and masks that are not those of
// scores.
#pragma once

#include <vector>

#include "qtape/deploy/lint.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// Returns a finding for every node that the answers need and whose values have no codes.
/// Values that a quantizer reads have those of its grid and are not listed:
///
/// - a leaf with infinite values, unless it is a mask that `score_mask` returns;
/// - any other mask that is added to the operand of a Softmax or LogSoftmax;
/// - a leaf with values from 10,000,000 on beside values up to 1,000 that is added to others;
/// - a number of 5,000 or more times a value that depends on inputs, added to such an operand.
std::vector<Finding> values_without_codes(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
