// Scales and offsets per channel as batch norms with a product before them, into which they can
// be folded.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "qtape/engine/serialize.h"

namespace qtape {

/// Result of channel_products.
struct ChannelProducts {
  std::optional<SavedModel> model = {};  ///< empty if nothing changes
  /// Names of the last nodes of the chains that became norms or an Affine (`name_near`).
  std::vector<std::string> chains = {};
  /// Labels of gamma of the norms that chains became.
  std::set<std::string> gammas = {};
};

/// Returns a network that computes the same up to f32 rounding, without nodes that have
/// integers only as parts of a product:
///
/// - A chain of sums, differences, products and quotients of a value with constants that differ
///   by channel, with AddBias and with BatchNorm, becomes one BatchNorm with constant
///   statistics. A chain of equal numbers for all channels becomes an Affine. Sums with a bias
///   directly after a product are unchanged.
/// - A BatchNorm that cannot be folded, because no product precedes it or because other nodes
///   read the product, gets a depthwise convolution with windows of 1 and weights of 1 as its
///   operand.
///
/// `fold_norms` folds all of these norms. In graphs with quantizers, only chains and norms with
/// a node that has no integer form are changed. Throws GraphError if the constants cannot be
/// evaluated.
ChannelProducts channel_products(const Graph& graph, const Parameters& parameters);

/// Gives each BatchNorm that cannot be folded the product that `channel_products` describes,
/// and changes nothing else. Empty if there is no such norm.
std::optional<SavedModel> norm_products(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
