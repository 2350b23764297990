// Values that no quantizer can hold: infinite constants, and masks that are not those of
// scores.
#pragma once

#include <vector>

#include "qtape/deploy/lint.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// Returns a finding for every node that the answers need and whose values have no codes.
/// Values that only quantizers read are not among them:
///
/// - a leaf with infinite values, unless it is a mask that `score_mask` returns;
/// - any other mask that is added to the operand of a Softmax or LogSoftmax;
/// - a leaf that is added to other values and has magnitudes of 10,000,000 or more and others
///   of 1,000 or less;
/// - a number of 5,000 or more times a value that depends on inputs, added to such an operand.
std::vector<Finding> values_without_codes(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
