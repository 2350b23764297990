// Batch norms of trained models.
#pragma once

#include "qtape/model/model.h"

namespace qtape {

/// Moves the running statistics of all batch norms, folded ones too, over `batches` full
/// batches of `dataset` with everything else as it stands: what the norms saw in training was
/// of other weights, and below 8 bits that can matter. Shuffled by `seed`. Sun et al., arXiv
/// 1909.12322. Returns how many batch norms there are. Throws ArgumentError for fewer samples
/// than a batch.
int64_t reestimate_norms(Model& model, const data::Dataset& dataset, int64_t batches = 100,
                         int64_t batch = 64, uint64_t seed = 1,
                         int threads = default_threads());

}  // namespace qtape
