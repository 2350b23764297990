// Re-estimation of the batch norms of trained models.
#pragma once

#include "qtape/model/model.h"

namespace qtape {

/// True if the graph has batch norms, folded ones included.
bool has_norms(const Graph& graph);

/// Sets the running statistics of all batch norms, including folded ones, to the means of those
/// of `batches` full batches of `dataset`. All other values are kept, except scales that keep
/// the codes of weights, see WeightCodes. The statistics collected in training belong to
/// earlier weights, which can matter below 8 bits. Batches are shuffled by `seed`; with 0
/// batches nothing changes. Sun et al., arXiv 1909.12322. Returns the number of batch norms.
/// Throws ArgumentError for a negative number of batches, empty ones, and fewer samples than a
/// batch.
int64_t reestimate_norms(Model& model, const data::Dataset& dataset, int64_t batches = 100,
                         int64_t batch = 64, uint64_t seed = 1,
                         int threads = default_threads());

}  // namespace qtape
