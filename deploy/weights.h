// The weights and biases of a graph as a tape in evaluation has them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/integer/exact.h"

namespace qtape {

/// The value of a node that depends on no input, and what a quantizer takes and gives beside
/// it. Spans are valid within the call that shows them.
struct WeightView {
  std::span<const float> raw;  ///< quantizers: of what they quantize
  std::span<const float> values;
  const ExactValue* codes = nullptr;     ///< what a quantizer wrote beside the values
  std::vector<QParams<double>> qparams;  ///< quantizers: one per channel
  std::string fault;                     ///< why there are no values; else empty
};

/// Calls `visit` with each of `ids`, f32 nodes that depend on no input, in any order.
/// Takes time linear in the graph and in what it computes. Weights that have nothing in common
/// fail by themselves; those that share operands with one that fails, but do not depend on it,
/// are left out. `parameters` are read only.
void visit_weights(const Graph& graph, Parameters& parameters, std::span<const NodeId> ids,
                   const std::function<void(NodeId, const WeightView&)>& visit);

}  // namespace qtape
