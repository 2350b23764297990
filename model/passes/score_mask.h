// Masks of attention: constants that are added to the operand of a Softmax, biases such as 0
// where an element counts and -Inf or a large negative number elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qtape/deploy/lint.h"
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
  std::vector<int64_t> extents = {};  ///< last axes of the scores, those of the next two
  std::vector<bool> counts = {};      ///< by row-major element: false where it is left out
  std::vector<float> biases = {};     ///< by element; empty if all are 0

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

/// Returns a finding for every node that the answers need and whose values have no codes.
/// Values that a quantizer reads have those of its grid and are not listed:
///
/// - a leaf with infinite values, unless it is a mask that `score_mask` returns;
/// - any other mask that is added to the operand of a Softmax or LogSoftmax;
/// - a leaf with values from 10,000,000 on beside values up to 1,000 that is added to others;
/// - a number of 5,000 or more times a value that depends on inputs, added to such an operand.
std::vector<Finding> values_without_codes(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
