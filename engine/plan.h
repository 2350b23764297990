// Plan: nodes to run, gradients to compute and positions of all buffers. A pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "qtape/engine/batch_slices.h"
#include "qtape/engine/graph.h"

namespace qtape {

struct PlanHooks;

/// Memory in addition to a node's value: in use from its forward until the forward of the last
/// of `readers`, or until the end of the step.
struct Companion {
  NodeId node;
  int64_t bytes = 0;
  std::vector<NodeId> readers = {};
  bool kept = false;  ///< in use until the end of the step
};

/// An f32 value held as 8-bit codes: the output of a quantizer, or of an op that selects some
/// of the codes of its operand 0. Its views are also held as codes.
struct EncodedValue {
  NodeId node;
  DType dtype = DType::U8;  ///< dtype of the codes: s8 or u8
};

/// Values held as codes, and nodes that read codes in forward. For all other readers the codes
/// are decoded beforehand into temporary memory.
struct Encoding {
  /// A value that `reader` needs in addition to its operands.
  struct Use {
    NodeId value;
    NodeId reader;
  };
  std::vector<EncodedValue> values = {};
  std::vector<NodeId> readers = {};  ///< nodes that read codes in forward
  std::vector<Use> uses = {};
};

/// Values to keep and to compute.
struct PlanOptions {
  std::vector<NodeId> outputs = {};  ///< values that remain readable after the step
  std::vector<NodeId> roots = {};    ///< nodes from which gradients start; empty: no backward
  /// Inputs of a float dtype whose gradients remain readable after the step.
  std::vector<NodeId> input_gradients = {};
  bool accumulate_gradients = false;  ///< gradients of parameters accumulate over steps
  /// Values computed only from leaves keep their memory between steps. Requires `roots` to be
  /// empty.
  bool constant_parameters = false;
  GradientPrecision gradient_precision = GradientPrecision::F32;
  int threads = 1;  ///< threads of backward; some kernels need memory per thread
  std::vector<Companion> companions = {};  ///< at most one per node
  Encoding encoding = {};                  ///< must not include outputs or roots
  BatchSlices slices = {};                 ///< shards of the batch of the graph
};

/// Position of a tensor.
struct Place {
  enum class Kind : uint8_t { None, Arena, Leaf };
  Kind kind = Kind::None;
  int64_t offset = 0;  ///< Arena: bytes from its start
  NodeId leaf;         ///< Leaf: the Parameter, State or Constant that owns the memory
  bool operator==(const Place&) const = default;
};

/// Plan of one node: the passes in which it runs, and the positions of its buffers.
struct NodePlan {
  bool needed = false;  ///< runs in forward
  bool active = false;  ///< runs in backward: a gradient flows through it
  bool kept = false;    ///< output or root: its value remains readable after the step
  /// With constant_parameters: true if it depends on no input, directly or indirectly.
  bool constant = false;
  Place value;
  Place gradient;
  Place saved;
  Place forward_scratch;
  Place backward_scratch;
  Place companion;
  /// Dtype of the codes, if the value is held as codes.
  std::optional<DType> encoded = std::nullopt;
  /// Per operand held as codes: position of its decoded values during forward and backward of
  /// this node, unless the node reads codes.
  std::vector<Place> forward_values;
  std::vector<Place> backward_values;
  /// Per operand held as codes: true if backward quantizes its source again, because the codes
  /// are no longer stored.
  std::vector<bool> made_again;
  int64_t record = 0;  ///< offset in the record memory
  /// True for a quantizer that masks gradients for a preceding Gate, which then has no
  /// backward.
  bool gated = false;
  bool open = false;  ///< true for such a Gate
  /// Shards: forward or backward runs once for each shard. For these nodes `saved` holds one
  /// part of saved_stride bytes for each shard.
  bool forward_slices = false;
  bool backward_slices = false;
  int64_t saved_stride = 0;
  int64_t forward_scratch_stride = 0;   ///< bytes of scratch of each lane, see Shards::lanes
  int64_t backward_scratch_stride = 0;  ///< the same for backward
  bool reduces = false;  ///< the value reduces the batch: the sum or mean of those of shards
  Place shard_values;    ///< reductions: memory of ShardSums
  Place shard_dy;        ///< reductions: gradient of the value of one shard
  /// Per operand without samples whose gradient is summed over shards: memory of ShardSums. All
  /// such nodes with this operand share it.
  std::vector<Place> shard_gradients;
  std::vector<bool> by_shards;       ///< per operand: its gradient is such a sum
  std::vector<bool> adds_to_shards;  ///< per operand: added to that of preceding nodes
  std::vector<bool> sums_shards;     ///< per operand: the sum is formed after this node
  std::vector<bool> wanted;          ///< per operand: its gradient is computed
  std::vector<bool> accumulate;  ///< per operand: the gradient is added to that of other nodes
};

/// A buffer and the closed time interval in which it is in use. Node i of n runs forward at
/// time i and backward at time 2n - 1 - i.
struct Lifetime {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct Plan {
  std::vector<NodePlan> nodes;
  std::vector<Lifetime> buffers;  ///< contents of the arena, for tools and tests
  int64_t arena_bytes = 0;
  int64_t record_bytes = 0;
};

/// Maximum number of bytes in use at one time: a lower bound of the size of an arena.
int64_t largest_live_set(std::span<const Lifetime> buffers);

/// Throws PlanError for ids outside the graph; for roots with constant_parameters; for
/// `input_gradients` that are not inputs of a float dtype or do not lead to a root; for roots
/// without a path to a parameter or to one of these inputs; and for an output or a root that is
/// to be held as codes.
Plan plan(const Graph& graph, const PlanOptions& options);
/// Variant with hooks for memory tests, see engine/plan_hooks.h.
Plan plan(const Graph& graph, const PlanOptions& options, const PlanHooks& hooks);

}  // namespace qtape
