// Masks of attention: constants that are added to the operand of a Softmax, 0 where an element
// counts and -Inf or a large negative number elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// The mask of a Softmax over the last axis.
struct ScoreMask {
  size_t scores = 0;              ///< index of the operand of the Add that is not the mask
  int64_t rows = 1;               ///< of the last axis but one
  int64_t columns = 1;            ///< of the last axis
  std::vector<bool> counts = {};  ///< [rows, columns]: true where the mask is 0

  /// Returns for each place of a row-major [rows, columns] one whose element counts: itself, or
  /// another one of its row.
  std::vector<int64_t> counted_places() const;
  /// Returns 1 where an element counts, else 0.
  Tensor factors() const;
};

/// Returns the mask that node `sum`, the operand of a Softmax along `axis`, adds. Returns
/// nullopt unless it is an Add of scores of 3 or more axes and of a leaf with the values of a
/// mask that is the same for all extents before the last two axes and leaves an element in each
/// row.
std::optional<ScoreMask> score_mask(const Graph& graph, const Parameters& parameters,
                                    NodeId sum, int axis);

}  // namespace qtape
