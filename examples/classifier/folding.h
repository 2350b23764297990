// Whether inference runs what training with frozen norms computed.
#pragma once

#include <optional>

#include "qtape/examples/classifier/task.h"
#include "qtape/examples/data/dataset.h"

namespace qtape::examples {

/// Outputs of a network as training with frozen norms computes them, beside those of its folded
/// graph in evaluation.
struct FoldedComparison {
  int64_t compared = 0;
  int64_t different = 0;  ///< in any bit
};

/// Over all images of `dataset`; nothing for a network without norms that fold.
std::optional<FoldedComparison> compare_folded(const Network& network, Parameters& parameters,
                                               const data::Dataset& dataset, int threads);

}  // namespace qtape::examples
