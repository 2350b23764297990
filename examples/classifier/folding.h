// Comparison of training with frozen norms and inference of the folded graph.
#pragma once

#include <optional>

#include "qtape/model/model.h"

namespace qtape::examples {

/// Comparison of a model's answers in training with frozen norms and those of its folded graph
/// in evaluation.
struct FoldedComparison {
  int64_t compared = 0;
  int64_t different = 0;  ///< not bit-identical
};

/// Compares all samples of `dataset`; returns nullopt for a model without norms that can be
/// folded.
std::optional<FoldedComparison> compare_folded(Model& model, const data::Dataset& dataset,
                                               int threads);

}  // namespace qtape::examples
