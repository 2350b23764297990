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

/// The mask of a Softmax.
struct ScoreMask {
  NodeId sum = {};                    ///< the Add of scores and mask
  size_t scores = 0;                  ///< index of its operand that is not the mask
  std::vector<NodeId> views = {};     ///< the Reshapes between `sum` and the Softmax, in order
  int axis = -1;                      ///< of the Softmax among the axes of `sum`
  std::vector<int64_t> extents = {};  ///< last axes of `sum`, those of `counts` and `biases`
  std::vector<bool> counts = {};      ///< by row-major element: false where it is left out
  std::vector<float> biases = {};     ///< by element; empty if all that count are 0

  /// Returns for each element one that counts: itself, or another one along the axis.
  std::vector<int64_t> counted_places() const;
  /// Returns 1 where an element counts, else 0.
  Tensor factors() const;
  /// Returns the biases of `counted_places`.
  Tensor counted_biases() const;
};

/// Returns the mask that is added to the operand of `softmax`, a Softmax node. Returns nullopt
/// unless it is a leaf with the values of an additive mask that is the same for all samples and
/// leaves an element along the axis.
std::optional<ScoreMask> score_mask(const Graph& graph, const Parameters& parameters,
                                    NodeId softmax);

/// Returns a finding for every leaf of a graph without quantizers that the answers need and
/// whose values have no integers: infinite ones, unless it is the mask of a Softmax, and a
/// finite mask of a Softmax that `score_mask` does not return.
std::vector<Finding> values_without_codes(const Graph& graph, const Parameters& parameters);

}  // namespace qtape
