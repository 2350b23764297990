// Finds the parts of a network that will have no integer form, before training or calibration.
#pragma once

#include <vector>

#include "qtape/deploy/lint.h"

namespace qtape {

/// Returns the answers of a graph that integer programs output: its outputs except losses. A
/// last Softmax or LogSoftmax is replaced by its operand, as in `with_loss`.
std::vector<NodeId> shipped_answers(const Graph& graph);

/// Returns a finding, with reason and remedy, for every node that the answers need and that has
/// no integer form, in graph order. The graph is checked as if it had quantizers wherever
/// the integer form requires one; a node without an integer form counts as an input of the
/// nodes after it. Numbers, such as scales that were never set, are not checked.
std::vector<Finding> float_parts(const Graph& graph);

/// Returns, for each node, true if another form of it may replace it: all nodes of a
/// graph without quantizers, otherwise the nodes of `float_parts`, which have no integer form.
std::vector<bool> replaceable_nodes(const Graph& graph);

/// Returns a finding for every node of a graph with quantizers that has no integer form only
/// because other quantizers are missing, in graph order. `insert_quantizers` with
/// `InsertOptions::complete` adds them. Nodes after such a node may be listed only once it is
/// quantized. Empty for a graph without quantizers.
std::vector<Finding> unquantized_parts(const Graph& graph);

/// Throws GraphError that lists all `parts` and ends with `way_out`, unless there are none.
void require_no_float_parts(const std::vector<Finding>& parts, std::string_view way_out);

/// The `way_out` for values without codes.
inline constexpr std::string_view no_floats_beside =
    "they cannot remain in floats next to quantizers";

}  // namespace qtape
