// Where batch norms can become part of the products before them.
#pragma once

#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/integer/rules/rule.h"

namespace qtape {

/// A BatchNorm, and the product that it can become part of.
struct NormFold {
  NodeId norm;
  NodeId product = {};     ///< MatMul or convolution; index -1: there is none, see `reason`
  NodeId weight = {};      ///< operand of the product
  NodeId bias = {};        ///< before it is rounded; index -1: none
  bool rounded = false;    ///< the bias, to the grid of accumulators
  bool quantized = false;  ///< the weight is or is computed from codes
  WeightLayout layout = {};
  /// Views and the sum with the bias between the two, the norm's operand first.
  std::vector<NodeId> between = {};
  /// Why a network that is to be trained or quantized next cannot have it folded; empty where
  /// it can. A product alone tells that values for evaluation can be folded.
  std::string reason = {};
  std::string remedy = {};

  bool has_product() const { return product.index >= 0; }
};

/// All BatchNorm nodes, in the order of the graph.
std::vector<NormFold> norm_folds(const Graph& graph);

/// Throws GraphError for quantized weights whose codes could not stay when the norm scales
/// them.
void check_weights(const Graph& graph, const NormFold& fold);

}  // namespace qtape
