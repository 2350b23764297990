// What each node of a graph means in integer arithmetic. Exact forward passes and the
// conversion to integer programs read it alike, so they cannot disagree on what is integer.
#pragma once

#include <span>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/integer/rules/rule.h"

namespace qtape {

struct IntegerAnalysis {
  std::vector<IntegerForm> forms;  ///< by node
  /// By node: itself, or what the views there show.
  std::vector<NodeId> origins;
  /// By node: why it has no integers although nothing before it stands in the way, with the
  /// reason and the remedy; else without reason.
  std::vector<Verdict> refusals;

  const IntegerForm& operator[](NodeId id) const {
    return forms[static_cast<size_t>(id.index)];
  }
  NodeId origin(NodeId id) const { return origins[static_cast<size_t>(id.index)]; }
  const Verdict& refusal(NodeId id) const { return refusals[static_cast<size_t>(id.index)]; }
};

/// Never throws: what has no integers is told in `refusals`.
IntegerAnalysis analyze_integers(const Graph& graph);

/// The f32 numbers of a leaf.
std::vector<float> leaf_values(const Graph& graph, const Parameters& parameters, NodeId leaf);

/// By node: whether `outputs` need it. Throws GraphError for ids that are not of the graph.
std::vector<bool> needed_for(const Graph& graph, std::span<const NodeId> outputs);

}  // namespace qtape
