// Order of conversion that keeps recursion shallow.
#pragma once

#include <span>
#include <vector>

#include "qtape/integer/rules/analysis.h"

namespace qtape {

/// Conversion recurses from the outputs to their operands. For graphs deeper than the stack
/// allows, returns the sources (see IntegerForm) that must be converted first, in order; empty
/// if `outputs` are at most `max_depth` sources deep. The graph must be
/// convertible.
std::vector<NodeId> early_sources(const Graph& graph, const IntegerAnalysis& analysis,
                                  std::span<const NodeId> outputs, int max_depth = 128);

}  // namespace qtape
