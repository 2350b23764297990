#include "qtape/engine/plan_footprints.h"

#include <algorithm>

#include "qtape/core/aligned.h"

namespace qtape {
namespace {

class FootprintReader {
 public:
  FootprintReader(const Graph& graph, const PlanOptions& options, std::vector<NodePlan>& nodes)
      : graph_(graph), options_(options), nodes_(nodes) {}

  NodeMemory read(NodeId id) {
    return std::visit([&](const auto& op) { return read(id, op); }, graph_[id].op);
  }

 private:
  template <class X>
  NodeMemory read(NodeId id, const X& op) {
    NodePlan& plan = nodes_[at(id)];
    const BatchSlices& slices = options_.slices;
    const std::vector<TensorType> all = inputs_of(id, op, false);
    NodeMemory memory{.forward = op.footprint(all)};
    if constexpr (requires { op.shards_scratch(all, slices.shards); }) {
      if (slices.any() && slices.batched[at(id)]) {
        memory.forward.scratch =
            std::max(memory.forward.scratch, op.shards_scratch(all, slices.shards));
      }
    }
    memory.backward_scratch = backward_scratch(op, memory.forward, all, options_.threads);
    if (!plan.forward_slices && !plan.backward_slices) return memory;
    const std::vector<TensorType> part = inputs_of(id, op, true);
    const Footprint one = op.footprint(part);
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

  /// Operand types in the form in which kernels read them, for one shard or for all samples.
  template <class X>
  std::vector<TensorType> inputs_of(NodeId id, const X& op, bool shard) const {
    std::vector<TensorType> inputs;
    const std::vector<NodeId>& operands = graph_[id].operands;
    const Keep keep = op.keep();
    for (size_t k = 0; k < operands.size(); ++k) {
      inputs.push_back(shard ? options_.slices.types[at(operands[k])]
                             : graph_[operands[k]].type);
      const auto& codes = nodes_[at(operands[k])].encoded;
      const bool takes_codes =
          OnCodes<X> ? k == 0 && nodes_[at(id)].encoded : keep.takes_codes(k);
      if (codes && takes_codes) inputs.back().dtype = *codes;
    }
    return inputs;
  }

  template <class X>
  int64_t backward_scratch(const X& op, const Footprint& footprint, Inputs inputs,
                           int threads) const {
    const int64_t bytes = aligned_size(footprint.scratch) + threads * footprint.thread_scratch;
    if constexpr (Bf16Gradients<X>) {
      if (options_.gradient_precision != GradientPrecision::F32) {
        return std::max(bytes, op.bf16_scratch(inputs));
      }
    }
    return bytes;
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
