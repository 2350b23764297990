// In which order to convert so that recursion stays shallow.
#pragma once

#include <span>
#include <vector>

#include "qtape/integer/analysis.h"

namespace qtape {

/// Conversion goes from the outputs to what they are made of. Of graphs deeper than a stack has
/// room for, some sources (see IntegerForm) are to be converted before, in this order; none
/// where `outputs` are at most `max_depth` sources deep. Needs a graph without reasons.
std::vector<NodeId> early_sources(const Graph& graph, const IntegerAnalysis& analysis,
                                  std::span<const NodeId> outputs, int max_depth = 128);

}  // namespace qtape
