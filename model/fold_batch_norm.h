// Batch norms folded into the products before them: the graph that inference runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qtape/engine/serialize.h"

namespace qtape {

/// What `graph` computes in evaluation, with plain layers in the place of batch norms, and
/// values for it.
///
/// - A BatchNormCorrection gives way to its operand; what FoldFactor and FoldBias lead to, up
/// to
///   quantizers, becomes Parameters. Outputs are those of the graph in evaluation, and in
///   training with frozen norms, bit for bit.
/// - A BatchNorm after a product with weights that depend on no input, with or without a bias
///   and changes of shape that keep the channels between them, becomes part of both. With r =
///   gamma / sqrt(running_var + eps) the bias is beta + (bias - running_mean) r, on the grid of
///   the accumulators where there was none or it was there before. Weights become w r. Where
///   they are quantized their codes stay and the scale of each output becomes s |r|, at least
///   the smallest normal f32, in a FakeQuantize with Fixed scales; r < 0 changes the sign of
///   codes, and r = 0 makes them 0.
///
/// Other batch norms stay. Labels stay: folded weights have that of w, a bias its own or else
/// beta's, the sum that of the norm; where a label is taken a number follows it. What nothing
/// reads any more is gone. `parameters` are read only.
///
/// Throws GraphError where there is nothing to fold; for weights before a BatchNorm whose codes
/// would move: affine, grouped, along another axis than outputs, not quantized last, or
/// -2^(b-1) with r < 0; and where the graph cannot be evaluated, as where scales were never
/// set.
SavedModel fold_batch_norm(const Graph& graph, Parameters& parameters);

/// Batch norms that were folded before a network is trained or quantized.
struct FoldedNorms {
  std::optional<SavedModel> model = {};  ///< the network without them; none where all stay
  std::vector<std::string> labels = {};  ///< of the norms, or `%7`
};

/// Folds the BatchNorm nodes whose products nothing else reads and no quantizer was given to:
/// what comes of it computes the same in evaluation, to within roundings of f32, and can be
/// trained and quantized layer by layer. `norm_folds` has the reasons of those that stay.
/// Norms that training folds itself (BatchNormCorrection) stay. Throws GraphError where the
/// graph cannot be evaluated.
FoldedNorms fold_norms(const Graph& graph, Parameters& parameters);

}  // namespace qtape
