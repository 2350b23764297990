// Integer form of each node of a graph. Exact forward passes and the conversion to integer
// programs both read it, so they cannot disagree on which nodes are integer.
#pragma once

#include <memory>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/integer/rules/rule.h"

namespace qtape {

struct IntegerAnalysis {
  std::vector<IntegerForm> forms;  ///< by node
  /// By node: the node itself, or the node that a chain of views starts from.
  std::vector<NodeId> origins;
  /// By node: the reason why the node has no integer form, and the remedy, if no earlier node
  /// is the cause; otherwise a verdict without a reason.
  std::vector<Verdict> refusals;

  const IntegerForm& operator[](NodeId id) const { return forms[at(id)]; }
  NodeId origin(NodeId id) const { return origins[at(id)]; }
  const Verdict& refusal(NodeId id) const { return refusals[at(id)]; }
};

/// Never throws: nodes without an integer form are reported in `refusals`.
IntegerAnalysis analyze_integers(const Graph& graph);

/// Analysis of a graph that grows.
class GrowingAnalysis {
 public:
  /// `graph` must outlive the analysis.
  explicit GrowingAnalysis(const Graph& graph);
  ~GrowingAnalysis();

  /// Analyzes nodes that were added; returns the analysis of all, which the next call changes.
  const IntegerAnalysis& extend();
  IntegerAnalysis result() &&;

 private:
  class Analyzer;
  std::unique_ptr<Analyzer> analyzer_;
};

/// Returns the f32 values of a leaf.
std::vector<float> leaf_values(const Graph& graph, const Parameters& parameters, NodeId leaf);

}  // namespace qtape
