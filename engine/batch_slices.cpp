#include "qtape/engine/batch_slices.h"

#include <algorithm>

#include "qtape/engine/quantizers.h"
#include "qtape/ops/op_queries.h"

namespace qtape {
namespace {

/// Types and channels of a graph with one shard, `one`, and with two, `two`.
class Slicer {
 public:
  Slicer(const Graph& one, const Graph& two, BatchSlices& slices)
      : one_(one), two_(two), slices_(slices) {}

  void add(NodeId id) {
    const TensorType& type = one_[id].type;
    const bool batched = type != two_[id].type;
    slices_.types.push_back(type);
    slices_.batched.push_back(batched);
    slices_.own_scales.push_back(is_quantizer(one_[id].op) &&
                                 channel_map(one_, id).channels !=
                                     channel_map(two_, id).channels);
    if (batched) {
      check_samples(id);
    } else {
      check_reduction(id);
    }
    check_scales(id);
  }

 private:
  void refuse_unless(bool holds, NodeId id, std::string_view cause) const {
    require<GraphError>(holds, "{}: a batch with this node cannot be divided into shards: {}",
                        one_.describe(id), cause);
  }

  bool batched(NodeId id) const { return slices_.batched[at(id)]; }

  void check_samples(NodeId id) const {
    const Shape& shape = one_[id].type.shape;
    refuse_unless(shape.rank() > 0 && two_[id].type.shape == shape.with(0, 2 * shape[0]), id,
                  "the samples of the batch are not along axis 0");
    std::vector<TensorType> inputs;
    for (const NodeId operand : one_[id].operands) inputs.push_back(one_[operand].type);
    const bool mixes = mixes_samples(one_[id].op, inputs);
    // The indices select rows of any sample.
    const bool selects =
        std::holds_alternative<Embedding>(one_[id].op) && batched(one_[id].operands[0]);
    refuse_unless(!mixes && !selects, id, "it mixes the samples of the batch");
    const bool writes = std::ranges::any_of(
        slots(id), [](const Slot& slot) { return slot.access == Access::ReadWrite; });
    const bool whole = traits_of(one_[id].op).whole_batch != WholeBatch::Never;
    refuse_unless(!writes || whole, id, "its states depend on all samples");
  }

  /// A value without samples, formed from values with samples.
  void check_reduction(NodeId id) const {
    const std::vector<Slot> slots = this->slots(id);
    for (size_t k = 0; k < slots.size(); ++k) {
      if (slots[k].scales != Scales::None || !batched(one_[id].operands[k])) continue;
      const bool known = traits_of(one_[id].op).batch_reduction != BatchReduction::None;
      refuse_unless(known, id, "its result depends on all samples");
    }
  }

  void check_scales(NodeId id) const {
    const std::vector<Slot> slots = this->slots(id);
    for (size_t k = 0; k < slots.size(); ++k) {
      refuse_unless(
          slots[k].scales == Scales::None || !slices_.own_scales[at(one_[id].operands[k])], id,
          "it reads scales of the single samples");
    }
  }

  std::vector<Slot> slots(NodeId id) const { return slots_of(one_[id].op); }

  const Graph& one_;
  const Graph& two_;
  BatchSlices& slices_;
};

}  // namespace

BatchSlices slice_batch(const Graph& graph, const Shards& shards) {
  shards.check();
  BatchSlices slices{.shards = shards};
  if (!shards.any()) return slices;
  const int64_t batch = graph.batch().value_or(1);
  require<ArgumentError>(graph.batch() && batch % shards.count == 0,
                         "expected a batch that {} shards divide, got {} samples", shards.count,
                         batch);
  require<ArgumentError>(batch / shards.count >= min_samples,
                         "expected at least {} samples in each of {} shards, got {} samples",
                         min_samples, shards.count, batch);
  const Graph one = graph.with_batch(batch / shards.count);
  const Graph two = graph.with_batch(batch / shards.count * 2);
  Slicer slicer(one, two, slices);
  for (const NodeId id : ids(graph)) slicer.add(id);
  return slices;
}

}  // namespace qtape
