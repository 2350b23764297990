#include "qtape/engine/plan_shards.h"

#include <algorithm>

#include "qtape/ops/op_queries.h"

namespace qtape {
namespace {

class ShardMarker {
 public:
  ShardMarker(const Graph& graph, const BatchSlices& slices, std::vector<NodePlan>& nodes)
      : graph_(graph), slices_(slices), nodes_(nodes) {}

  void run() {
    for (const NodeId id : ids(graph_)) mark(id);
    mark_sums();
  }

 private:
  bool batched(NodeId id) const { return slices_.batched[at(id)]; }

  /// True if the node has an operand with samples whose values it reads.
  bool reads_samples(const Node& node) const {
    const auto slots = slots_of(node.op);
    for (size_t k = 0; k < slots.size(); ++k) {
      if (slots[k].scales == Scales::None && batched(node.operands[k])) return true;
    }
    return false;
  }

  void mark(NodeId id) {
    const Node& node = graph_[id];
    NodePlan& plan = nodes_[at(id)];
    plan.reduces = !batched(id) && reads_samples(node);
    const OpTraits& traits = traits_of(node.op);
    bool sums = plan.reduces;
    for (size_t k = 0; batched(id) && k < node.operands.size(); ++k) {
      sums = sums || (plan.wanted[k] && !batched(node.operands[k]));
    }
    if (!sums && (traits.guarantee.instruction_sets || !batched(id))) return;
    plan.forward_slices = traits.whole_batch == WholeBatch::Never;
    plan.backward_slices = plan.active && traits.whole_batch != WholeBatch::Always;
  }

  /// Marks gradients in the order of backward: the first user of an operand writes the
  /// gradients of the shards, all others add to them, and the last one forms the sum.
  void mark_sums() {
    struct Use {
      size_t node = 0;
      size_t operand = 0;
      bool any = false;
    };
    std::vector<Use> last(nodes_.size());
    for (size_t i = nodes_.size(); i-- > 0;) {
      const std::vector<NodeId>& operands = graph_.nodes()[i].operands;
      NodePlan& plan = nodes_[i];
      plan.by_shards.assign(operands.size(), false);
      plan.adds_to_shards.assign(operands.size(), false);
      plan.sums_shards.assign(operands.size(), false);
      for (size_t k = 0; k < operands.size(); ++k) {
        if (!plan.backward_slices || !plan.wanted[k] || batched(operands[k])) continue;
        Use& use = last[at(operands[k])];
        plan.by_shards[k] = true;
        plan.adds_to_shards[k] = use.any;
        use = {i, k, true};
      }
    }
    for (const Use& use : last) {
      if (use.any) nodes_[use.node].sums_shards[use.operand] = true;
    }
  }

  const Graph& graph_;
  const BatchSlices& slices_;
  std::vector<NodePlan>& nodes_;
};

}  // namespace

void mark_shards(const Graph& graph, const BatchSlices& slices, std::vector<NodePlan>& nodes) {
  if (slices.any()) ShardMarker(graph, slices, nodes).run();
}

}  // namespace qtape
