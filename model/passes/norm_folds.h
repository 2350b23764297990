// Finds batch norms that can be folded into the preceding products.
#pragma once

#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/integer/rules/rule.h"

namespace qtape {

/// A BatchNorm, and the product into which it can be folded.
struct NormFold {
  NodeId norm;
  NodeId product = {};     ///< MatMul or convolution; index -1: none, see `reason`
  NodeId weight = {};      ///< operand of the product
  NodeId bias = {};        ///< before rounding; index -1: none
  bool rounded = false;    ///< true if the bias is rounded to the grid of the accumulators
  bool quantized = false;  ///< true if the weight is, or is computed from, codes
  WeightLayout layout = {};
  /// Views and the bias sum between product and norm, beginning with the norm's operand.
  std::vector<NodeId> between = {};
  /// Why the norm cannot be folded in a network that is still to be trained or quantized; empty
  /// if it can. For folding in evaluation it is enough that there is a product.
  std::string reason = {};
  std::string remedy = {};

  bool has_product() const { return product.index >= 0; }
};

/// Thrown if a norm cannot be folded because the weights would need codes out of their range.
struct LastingNorm : GraphError {
  template <class... Args>
  LastingNorm(NodeId at, fmt::format_string<Args...> text, Args&&... args)
      : GraphError(fmt::format(text, std::forward<Args>(args)...)), norm(at) {}

  NodeId norm;
};

/// Returns all BatchNorm nodes, in graph order.
std::vector<NormFold> norm_folds(const Graph& graph);

/// Throws GraphError for quantized weights whose codes would change when the norm scales them.
void check_weights(const Graph& graph, const NormFold& fold);

}  // namespace qtape
