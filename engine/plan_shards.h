// The part of planning that a batch in shards adds.
#pragma once

#include <vector>

#include "qtape/engine/plan.h"

namespace qtape {

/// Marks nodes whose kernels run once for each shard, and gradients that are sums over shards:
/// the members of NodePlan about shards except memory locations. `nodes` have all other marks.
/// Kernels run for each shard if the bits of a sample could depend on the number of samples, or
/// if they form gradients as sums over samples.
void mark_shards(const Graph& graph, const BatchSlices& slices, std::vector<NodePlan>& nodes);

}  // namespace qtape
