// Batch norms folded into the products before them: the graph that inference runs.
#pragma once

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
///   between them, becomes part of both. With r = gamma / sqrt(running_var + eps) the bias is
///   beta + (bias - running_mean) r, on the grid of the accumulators where there was none or it
///   was there before. Weights become w r. Where they are quantized their codes stay and the
///   scale of each output becomes s |r|, at least the smallest normal f32, in a FakeQuantize
///   with Fixed scales; r < 0 changes the sign of codes, and r = 0 makes them 0.
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

}  // namespace qtape
