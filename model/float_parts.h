// What of a network will have no integers, known before anything is trained or calibrated.
#pragma once

#include <vector>

#include "qtape/deploy/lint.h"

namespace qtape {

/// The answers of a graph, which integer programs yield: its outputs but for losses. A Softmax
/// or LogSoftmax at the end gives way to its operand, as `with_loss` has it.
std::vector<NodeId> shipped_answers(const Graph& graph);

/// Every node that the answers need and that has no integers, with the reason and what helps,
/// in the order of the graph. A graph without quantizers is judged as if it had them wherever
/// integers need one, and what comes after a node without integers as if that were an input;
/// one with quantizers as it is. Numbers, such as scales that were never set, are not looked
/// at.
std::vector<Finding> float_parts(const Graph& graph);

/// Throws GraphError that lists all `parts`, where there are any; `way_out` ends it.
void require_no_float_parts(const std::vector<Finding>& parts, std::string_view way_out);

}  // namespace qtape
