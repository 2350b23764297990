// Chains of nodes that scale and shift the channels of a value by constants.
#pragma once

#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// Consecutive nodes, each the only reader of the preceding one, that together compute
/// factor[c] x + offset[c] for the channels c, the last axis of x.
struct ChannelChain {
  std::vector<NodeId> nodes = {};
  NodeId x = {};  ///< operand of the first node
  std::vector<double> factor = {};
  std::vector<double> offset = {};
  bool is_trained = false;  ///< true if parameters are among the constants

  /// True if all channels have the same numbers.
  bool is_uniform() const;
};

/// Returns the longest chains of Add, Sub, Mul, Div, AddBias, Affine and BatchNorm with
/// constants as other operands, in graph order. Sums with a bias directly after a product with
/// constant weights are not part of a chain, nor are nodes that only losses need and parameters
/// with other readers. BatchNorm uses its running statistics.
std::vector<ChannelChain> channel_chains(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
