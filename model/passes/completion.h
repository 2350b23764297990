// Nodes that need a quantizer before the answers of a graph can have integers.
#pragma once

#include <set>

#include "qtape/engine/graph.h"

namespace qtape {

/// Returns the nodes whose lack of a quantizer leaves an answer without integers; a quantizer
/// after each may show others.
std::set<NodeId> unquantized_nodes(const Graph& graph);

/// Returns most of the nodes that repeated `unquantized_nodes` would find, in one pass: a
/// recurrent layer shows those of a step only when those of the step before have `quantizer`.
std::set<NodeId> unquantized_in_order(const Graph& graph, const Op& quantizer);

/// Returns the operand of `op` that is a bias on the grid of accumulators; -1 if there is none.
int bias_operand(const Op& op);

}  // namespace qtape
