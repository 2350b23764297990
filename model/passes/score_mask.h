// Masks of attention: constants that are added to the operand of a Softmax, biases such as 0
// where an element counts and -Inf or a large negative number elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// A node between scores and their Softmax.
struct ScoreStep {
  NodeId node = {};
  size_t operand = 0;    ///< index of the operand with the scores
  bool is_kept = false;  ///< false for sums with a mask, and limits that change no score
};

/// The mask of a Softmax: all masks that are added to its scores.
struct ScoreMask {
  std::vector<ScoreStep> steps = {};  ///< from the scores to the last sum or factor
  std::vector<NodeId> views = {};     ///< the Reshapes between these and the Softmax, in order
  int axis = -1;                      ///< of the Softmax among the axes of the steps
  /// Extents of the trailing axes of the scores that the mask covers, in which `counts` and
  /// `biases` are row-major.
  std::vector<int64_t> extents = {};
  std::vector<bool> counts = {};   ///< by element: false where it is excluded
  std::vector<float> biases = {};  ///< by element; empty if all are 0

  /// Calls f(first, step, n) for each row along the axis: its elements are first + k * step.
  template <class F>
  void for_each_row(const F& f) const {
    const std::span<const int64_t> all = extents;
    const auto along = static_cast<size_t>(axis + std::ssize(all));
    const int64_t n = all[along];
    const int64_t step = Shape(all.subspan(along + 1)).elements();
    for (int64_t outer = 0; outer < Shape(all.first(along)).elements(); ++outer) {
      for (int64_t inner = 0; inner < step; ++inner) f(outer * n * step + inner, step, n);
    }
  }
  /// Returns for each element one that counts: itself, or another one along the axis.
  std::vector<int64_t> counted_places() const;
  /// Returns 1 where an element counts, else 0.
  Tensor factors() const;
  /// Returns the biases of `counted_places`.
  Tensor counted_biases() const;
};

/// Returns the masks that are added to the operand of `softmax`, a Softmax node: leaves with
/// the values of a mask (`mask_bound`), which are the same for all samples and together leave
/// an element along the axis. Biases are relative to the largest of their row, which does not
/// change the Softmax; elements with less than -500 are left out. Numbers, positive factors and
/// other leaves may lie between mask and Softmax. Returns nullopt if there is none.
std::optional<ScoreMask> score_mask(const Graph& graph, const Parameters& parameters,
                                    NodeId softmax);

}  // namespace qtape
