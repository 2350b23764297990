// Values of the weights and biases of a graph, as a tape in evaluation mode computes them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/integer/training/exact.h"

namespace qtape {

/// The value of a node that depends on no input, with the operand and codes of a quantizer.
/// Spans are valid only during the call of the visitor.
struct WeightView {
  std::span<const float> raw;  ///< quantizers: the operand
  std::span<const float> values;
  const ExactValue* codes = nullptr;     ///< quantizers: the codes of the values
  std::vector<QParams<double>> qparams;  ///< quantizers: one per channel
  std::string fault;                     ///< why there are no values; empty otherwise
};

/// Calls `visit` with each of `ids`, f32 nodes that depend on no input, in any order. The time
/// is linear in the graph and in the computation. Unconnected weights fail independently.
/// Weights that share operands with one that fails, but do not depend on the failing node, are
/// not visited.
void visit_weights(const Graph& graph, const Parameters& parameters,
                   std::span<const NodeId> ids,
                   const std::function<void(NodeId, const WeightView&)>& visit);

/// Value of a bias that is not a leaf.
struct ComputedBias {
  std::vector<float> values;
  Verdict wrong;  ///< why they have no codes
};
using ComputedBiases = std::map<NodeId, ComputedBias>;

/// Calls `visit`, like visit_weights, for each of `weights` and for each bias that is not a
/// leaf, of the products that `needed` marks. Returns these biases.
ComputedBiases visit_constants(const Graph& graph, const Parameters& parameters,
                               const IntegerAnalysis& analysis, const std::vector<bool>& needed,
                               std::set<NodeId> weights,
                               const std::function<void(NodeId, const WeightView&)>& visit);

/// Returns the codes of weights with those of an output side by side, [n, k].
std::vector<int8_t> in_rows(std::span<const int8_t> codes, const WeightLayout& layout);

/// Returns the values of a bias: one of `computed`, or a leaf.
std::vector<float> bias_values(const Graph& graph, const Parameters& parameters,
                               const ComputedBiases& computed, NodeId bias);

}  // namespace qtape
