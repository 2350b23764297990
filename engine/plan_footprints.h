// The part of planning that asks ops for the memory they need.
#pragma once

#include <vector>

#include "qtape/engine/plan.h"

namespace qtape {

/// Memory of a node besides its operands and its value. Nodes whose kernels run for each shard
/// have the `saved` of all shards, and scratch for those that run at the same time.
struct NodeMemory {
  Footprint forward = {};
  int64_t backward_scratch = 0;
};

/// Memory of all nodes, by node. `nodes` have their marks; their strides are set.
std::vector<NodeMemory> memory_of(const Graph& graph, const PlanOptions& options,
                                  std::vector<NodePlan>& nodes);

}  // namespace qtape
