#include "qtape/engine/tape_shards.h"

#include <memory>
#include <optional>

#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/families/sequence.h"
#include "qtape/ops/op_queries.h"

namespace qtape {

/// Binding of one shard, with the memory to which it refers.
struct Tape::ShardBinder::Part {
  Part(const ShardBinder& binder, const Binding& whole, int64_t shard);
  void take_operand(const ShardBinder& binder, size_t k, const TensorType& whole,
                    int64_t shard);

  std::vector<TensorType> types;
  std::vector<std::byte*> values;
  std::vector<EncodedOperand> encoded;
  std::vector<Gradient> gradients;
  int64_t rows = 0;  // extent of axis 0 of the first operand with samples
  Binding binding;
};

Tape::ShardBinder::Part::Part(const ShardBinder& binder, const Binding& whole, int64_t shard)
    : values(whole.operands.begin(), whole.operands.end()),
      encoded(whole.encoded.begin(), whole.encoded.end()),
      gradients(whole.gradients.begin(), whole.gradients.end()),
      binding(whole) {
  const BatchSlices& slices = binder.slices_;
  for (size_t k = 0; k < values.size(); ++k) take_operand(binder, k, whole.inputs[k], shard);
  binding.inputs = types;
  binding.output = {whole.output.dtype, slices.types[binder.node_].shape};
  binding.operands = values;
  binding.encoded = encoded;
  binding.gradients = gradients;
  const int64_t offset = binder.offset(binder.node_, binding.output, shard);
  if (binding.result != nullptr) binding.result += offset;
  if (binding.saved != nullptr) binding.saved += shard * binder.place_.saved_stride;
  if (binding.dy != nullptr && binder.place_.reduces) {
    binding.dy = binder.at(binder.place_.shard_dy);
  } else if (binding.dy != nullptr) {
    binding.dy += shard * binder.gradient_bytes(binder.node_);
  }
  binding.first_sample = (slices.shards.first + shard) * rows;
}

void Tape::ShardBinder::Part::take_operand(const ShardBinder& binder, size_t k,
                                           const TensorType& whole, int64_t shard) {
  const BatchSlices& slices = binder.slices_;
  const size_t node = binder.operand(k);
  types.push_back({whole.dtype, slices.types[node].shape});
  if (rows == 0 && slices.batched[node]) rows = types[k].shape[0];
  if (values[k] != nullptr) values[k] += binder.offset(node, types[k], shard);
  if (k < encoded.size() && encoded[k].codes != nullptr && slices.batched[node]) {
    binder.tape_.check_node(NodeId{static_cast<int32_t>(node)}, !slices.own_scales[node],
                            "codes with a scale for each sample cannot be divided into shards");
    encoded[k].codes += shard * types[k].elements() * size_of(encoded[k].dtype);
  }
  if (gradients[k].data == nullptr) return;
  if (slices.batched[node]) {
    gradients[k].data += shard * binder.gradient_bytes(node);
  } else {
    gradients[k] = {binder.gradients(k).value(shard), binder.place_.adds_to_shards[k]};
  }
}

Tape::ShardBinder::ShardBinder(const Tape& tape, const Layout& layout, size_t node)
    : tape_(tape),
      layout_(layout),
      node_(node),
      place_(layout.plan.nodes[node]),
      slices_(*tape.slices_) {}

/// Factor of the sum over shards that gives the value of a reduction.
double Tape::ShardBinder::share() const {
  const bool mean = traits_of(node().op).batch_reduction == BatchReduction::Mean;
  return mean ? 1.0 / static_cast<double>(slices_.shards.total) : 1.0;
}

/// Sums of the gradients of operand k.
ShardSums Tape::ShardBinder::gradients(size_t k) const {
  return {slices_.shards, gradient_type_of(operand(k)), at(place_.shard_gradients[k]),
          tape_.options_.threads};
}

/// Bytes of the gradient of a value with samples, for one shard.
int64_t Tape::ShardBinder::gradient_bytes(size_t node) const {
  return gradient_type_of(node).bytes() / slices_.shards.count;
}

/// Offset of the samples of a shard in a tensor of one shard's `type`, in bytes.
int64_t Tape::ShardBinder::offset(size_t node, const TensorType& type, int64_t shard) const {
  return slices_.batched[node] ? shard * type.bytes() : 0;
}

/// Kernel that runs those that `bind(op, binding, shard)` returns for the shards. `scratch`:
/// bytes of each lane.
template <class Bind>
Kernel Tape::ShardBinder::run_all(const Binding& whole, int64_t scratch,
                                  const Bind& bind) const {
  const int64_t count = slices_.shards.count;
  const int lanes = slices_.shards.lanes(whole.threads);
  std::vector<Kernel> kernels;
  for (int lane = 0; lane < lanes; ++lane) {
    for (int64_t s = count * lane / lanes; s < count * (lane + 1) / lanes; ++s) {
      Part part(*this, whole, s);
      if (part.binding.scratch != nullptr) part.binding.scratch += lane * scratch;
      if (lanes > 1) part.binding.threads = 1;
      kernels.push_back(bind(node().op, part.binding, s));
    }
  }
  if (!kernels[0]) return {};
  return [kernels = std::move(kernels), lanes](const Step& step) {
    const auto shards = static_cast<int64_t>(kernels.size());
    kernels::parallel_for(lanes, lanes, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t s = shards * begin / lanes; s < shards * end / lanes; ++s) {
        kernels[static_cast<size_t>(s)](step);
      }
    });
  };
}

Kernel Tape::ShardBinder::forward(const Binding& whole) const {
  std::optional<ShardSums> sums;
  if (place_.reduces) {
    sums.emplace(slices_.shards, node().type, at(place_.shard_values), whole.threads);
  }
  // Shards report faults separately, since they may run at the same time.
  const auto statuses =
      std::make_shared<std::vector<NodeStatus>>(static_cast<size_t>(slices_.shards.count));
  Kernel kernel = run_all(whole, place_.forward_scratch_stride,
                          [&](const Op& op, Binding binding, int64_t shard) {
                            binding.status = &(*statuses)[static_cast<size_t>(shard)];
                            if (sums) binding.result = sums->value(shard);
                            return forward_kernel(op, binding);
                          });
  kernel = sequence(std::move(kernel), [statuses, all = whole.status](const Step&) {
    for (NodeStatus& each : *statuses) {
      if (all->fault.text == nullptr) all->fault = each.fault;
      each.fault = {};
    }
  });
  if (!sums) return kernel;
  return sequence(std::move(kernel), [sums = *sums, to = whole.result, factor = share()](
                                         const Step&) { sums.finish(to, false, factor); });
}

Kernel Tape::ShardBinder::backward(const Binding& whole) const {
  Kernel kernel;
  if (place_.reduces) {
    const TensorType type = gradient_type_of(node_);
    kernel = [type, from = whole.dy, to = at(place_.shard_dy), factor = share()](const Step&) {
      scale_tensor(type, from, factor, to);
    };
  }
  kernel =
      sequence(std::move(kernel), run_all(whole, place_.backward_scratch_stride,
                                          [](const Op& op, const Binding& binding, int64_t) {
                                            return backward_kernel(op, binding);
                                          }));
  for (size_t k = 0; k < node().operands.size(); ++k) {
    if (!place_.sums_shards[k]) continue;
    kernel = sequence(std::move(kernel), [sums = gradients(k), to = whole.gradients[k].data,
                                          accumulate = whole.gradients[k].accumulate](
                                             const Step&) { sums.finish(to, accumulate, 1); });
  }
  return kernel;
}

}  // namespace qtape
