// Kernels of a node that run once for each shard. Included only by .cpp files of the tape.
#pragma once

#include <cstddef>

#include "qtape/engine/batch_slices.h"
#include "qtape/engine/tape.h"
#include "qtape/engine/tape_layout.h"
#include "qtape/ops/families/shard_sums.h"

namespace qtape {

/// Binds the kernels of one node for all shards of the process: with the parts of its buffers
/// that belong to a shard, and the sums over shards.
class Tape::ShardBinder {
 public:
  ShardBinder(const Tape& tape, const Layout& layout, size_t node);

  /// `whole` is the binding of all samples.
  Kernel forward(const Binding& whole) const;
  Kernel backward(const Binding& whole) const;

 private:
  struct Part;

  const Node& node() const { return tape_.graph().nodes()[node_]; }
  size_t operand(size_t k) const { return tape_.index_of(node().operands[k]); }
  std::byte* at(const Place& place) const { return tape_.address(layout_, place, false); }
  TensorType gradient_type_of(size_t node) const {
    return tape_.seed_type(NodeId{static_cast<int32_t>(node)});
  }
  double share() const;
  ShardSums gradients(size_t k) const;
  int64_t gradient_bytes(size_t node) const;
  int64_t offset(size_t node, const TensorType& type, int64_t shard) const;
  template <class Bind>
  Kernel run_all(const Binding& whole, int64_t scratch, const Bind& bind) const;

  const Tape& tape_;
  const Layout& layout_;
  size_t node_;
  const NodePlan& place_;
  const BatchSlices& slices_;
};

}  // namespace qtape
