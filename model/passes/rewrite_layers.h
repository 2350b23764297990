// Rewrites layers that have an integer form only as other layers, before quantizers are
// inserted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qtape/deploy/lint.h"
#include "qtape/engine/serialize.h"

namespace qtape {

/// Result of rewrite_layers.
struct RewrittenLayers {
  std::optional<SavedModel> model = {};  ///< empty if nothing changes
  /// Batch norms that were folded: labels, or names such as `BatchNorm after conv1`.
  std::vector<std::string> folded = {};
  /// Scales, offsets, transposed convolutions, quotients, borders and Softmaxes that became
  /// other layers, by such names.
  std::vector<std::string> rewritten = {};
  /// Nodes that cannot be quantized, see `values_without_codes`.
  std::vector<Finding> refused = {};
};

/// Returns a network that computes the same in evaluation, up to f32 rounding, and whose layers
/// have integers: scales and offsets per channel become products (`channel_products`), batch
/// norms are folded (`fold_norms`), transposed convolutions become convolutions
/// (`sub_pixel_convolutions`), divisions become products with the reciprocal, borders with
/// a value of at most 256 become zero borders of the differences from it, unless only maxima
/// read them and the value is negative, and each Softmax or LogSoftmax that is not
/// last becomes exponentials of differences and their sum. Leaves without readers are removed.
/// Nodes that only losses need are kept. Constants of scales and offsets become parameters of
/// the products. In graphs with quantizers, norms are folded where possible, and only nodes
/// without integers are replaced; quantizers keep their scales. Throws GraphError if the graph
/// cannot be evaluated.
RewrittenLayers rewrite_layers(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
