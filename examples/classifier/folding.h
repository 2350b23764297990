// Whether inference runs what training with frozen norms computed.
#pragma once

#include <optional>

#include "qtape/model/model.h"

namespace qtape::examples {

/// Answers of a model as training with frozen norms computes them, beside those of its folded
/// graph in evaluation.
struct FoldedComparison {
  int64_t compared = 0;
  int64_t different = 0;  ///< in any bit
};

/// Over all samples of `dataset`; nothing for a model without norms that fold.
std::optional<FoldedComparison> compare_folded(Model& model, const data::Dataset& dataset,
                                               int threads);

}  // namespace qtape::examples
