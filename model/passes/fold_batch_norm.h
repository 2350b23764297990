// Folding of batch norms into the preceding products, for inference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qtape/engine/serialize.h"

namespace qtape {

/// Returns a graph, with its values, that computes the evaluation results of `graph` with plain
/// layers in place of batch norms.
///
/// - A BatchNormCorrection is replaced by its operand. The values computed by FoldFactor and
///   FoldBias, up to quantizers, become Parameters. The outputs are bit-identical to those of
///   the graph in evaluation, and in training with frozen norms.
/// - A BatchNorm is folded into the product that precedes it if the weights depend on no input.
///   A bias and changes of shape that keep the channels may come between them. With r = gamma
///   / sqrt(running_var + eps) the bias becomes beta + (bias - running_mean) r, on the grid of
///   the accumulators if there was no bias or it was on that grid. Weights become w r.
///   Quantized weights keep their codes, and the scale of each output becomes s |r|, at least
///   the smallest normal f32, in a FakeQuantize with Fixed scales; r < 0 negates the codes, and
///   r = 0 sets them to 0.
///
/// Other batch norms are kept. Labels are kept: folded weights have the label of w, a bias its
/// own or else that of beta, the sum that of the norm; if a label is taken, a number is
/// appended. Nodes without readers are removed.
///
/// Throws GraphError if there is nothing to fold; for weights whose codes could not be kept:
/// affine, grouped, quantized along an axis other than the outputs, not quantized last, or
/// -2^(b-1) with r < 0; and if the graph cannot be evaluated, for example because scales were
/// never set.
SavedModel fold_batch_norm(const Graph& graph, const Parameters& parameters);

/// Result of fold_norms.
struct FoldedNorms {
  std::optional<SavedModel> model = {};  ///< the network without them; empty if no norm was
                                         ///< folded
  std::vector<NodeId> norms = {};        ///< that were folded, by ids of the given graph
};

/// Folds the BatchNorm nodes that follow a product without other readers and without
/// quantizers. The result computes the same in evaluation, up to f32 rounding, and can be
/// trained and quantized layer by layer. `norm_folds` gives the reasons for the norms that
/// stay. Norms already folded in training (BatchNormCorrection) are kept, and so are norms with
/// negative factors over quantized weights with the code -2^(b-1): fold_batch_norm states the
/// reason. Throws GraphError if the graph cannot be evaluated.
FoldedNorms fold_norms(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
