#include "qtape/tools/qtape/losses.h"

#include "qtape/engine/plan.h"

namespace qtape::tool {

std::vector<NodeId> losses(const Graph& graph) {
  std::vector<NodeId> found;
  for (NodeId id : graph.outputs()) {
    const TensorType& type = graph[id].type;
    if (type.elements() != 1 || !is_compute(type.dtype)) continue;
    try {
      (void)plan(graph, {.outputs = {id}, .roots = {id}});
      found.push_back(id);
    } catch (const PlanError&) {  // no gradient leads from it
    }
  }
  return found;
}

}  // namespace qtape::tool
