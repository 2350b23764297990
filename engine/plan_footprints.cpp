#include "qtape/engine/plan_footprints.h"

#include <algorithm>

#include "qtape/core/aligned.h"
#include "qtape/ops/op_queries.h"

namespace qtape {
namespace {

class FootprintReader {
 public:
  FootprintReader(const Graph& graph, const PlanOptions& options, std::vector<NodePlan>& nodes)
      : graph_(graph), options_(options), nodes_(nodes) {}

  NodeMemory read(NodeId id) {
    const Op& op = graph_[id].op;
    NodePlan& plan = nodes_[at(id)];
    const BatchSlices& slices = options_.slices;
    const std::vector<TensorType> all = inputs_of(id, false);
    NodeMemory memory{.forward = footprint_of(op, all)};
    if (slices.any() && slices.batched[at(id)]) {
      memory.forward.scratch =
          std::max(memory.forward.scratch, shards_scratch(op, all, slices.shards));
    }
    memory.backward_scratch = backward_scratch(op, memory.forward, all, options_.threads);
    if (!plan.forward_slices && !plan.backward_slices) return memory;
    const std::vector<TensorType> part = inputs_of(id, true);
    const Footprint one = footprint_of(op, part);
    const int lanes = slices.shards.lanes(options_.threads);
    if (plan.backward_slices) {
      plan.backward_scratch_stride =
          aligned_size(backward_scratch(op, one, part, lanes > 1 ? 1 : options_.threads));
      memory.backward_scratch = lanes * plan.backward_scratch_stride;
    }
    if (!plan.forward_slices) return memory;
    plan.saved_stride = aligned_size(one.saved);
    plan.forward_scratch_stride = aligned_size(one.scratch);
    memory.forward.saved = slices.shards.count * plan.saved_stride;
    memory.forward.scratch = lanes * plan.forward_scratch_stride;
    return memory;
  }

 private:
  /// Operand types in the form in which kernels read them, for one shard or for all samples.
  std::vector<TensorType> inputs_of(NodeId id, bool shard) const {
    std::vector<TensorType> inputs;
    const std::vector<NodeId>& operands = graph_[id].operands;
    const Keep keep = keep_of(graph_[id].op);
    const bool on_codes = traits_of(graph_[id].op).on_codes;
    for (size_t k = 0; k < operands.size(); ++k) {
      inputs.push_back(shard ? options_.slices.types[at(operands[k])]
                             : graph_[operands[k]].type);
      const auto& codes = nodes_[at(operands[k])].encoded;
      const bool takes_codes =
          on_codes ? k == 0 && nodes_[at(id)].encoded : keep.takes_codes(k);
      if (codes && takes_codes) inputs.back().dtype = *codes;
    }
    return inputs;
  }

  int64_t backward_scratch(const Op& op, const Footprint& footprint, Inputs inputs,
                           int threads) const {
    const int64_t bytes = aligned_size(footprint.scratch) + threads * footprint.thread_scratch;
    if (options_.gradient_precision == GradientPrecision::F32) return bytes;
    return std::max(bytes, bf16_scratch(op, inputs));
  }

  const Graph& graph_;
  const PlanOptions& options_;
  std::vector<NodePlan>& nodes_;
};

}  // namespace

std::vector<NodeMemory> memory_of(const Graph& graph, const PlanOptions& options,
                                  std::vector<NodePlan>& nodes) {
  FootprintReader reader(graph, options, nodes);
  std::vector<NodeMemory> memory;
  for (const NodeId id : ids(graph)) memory.push_back(reader.read(id));
  return memory;
}

}  // namespace qtape
