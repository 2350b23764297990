// Plan: which nodes run, which gradients flow, and where every buffer lies. A pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

struct PlanHooks;

/// Memory beside a node's value: from its forward until that of the last of `readers`, or to
/// the end of the step.
struct Companion {
  NodeId node;
  int64_t bytes = 0;
  std::vector<NodeId> readers = {};
  bool kept = false;  ///< to the end of the step
};

/// A value of f32 that is held as 8-bit codes: of a quantizer, or of an op that gives some of
/// the codes of its operand 0. Its views are held so, too.
struct EncodedValue {
  NodeId node;
  DType dtype = DType::U8;  ///< of the codes: s8 or u8
};

/// Which values are held as codes, and which nodes read these in forward. For all other readers
/// codes are turned into values beforehand, in memory that is theirs while they run.
struct Encoding {
  /// A value that `reader` needs, beside its operands.
  struct Use {
    NodeId value;
    NodeId reader;
  };
  std::vector<EncodedValue> values = {};
  std::vector<NodeId> readers = {};  ///< nodes that read codes in forward
  std::vector<Use> uses = {};
};

/// What a plan is to keep and to compute.
struct PlanOptions {
  std::vector<NodeId> outputs = {};  ///< values that stay readable after the step
  std::vector<NodeId> roots = {};    ///< where gradients start; none: no backward
  /// Inputs of a float dtype whose gradients stay readable after the step.
  std::vector<NodeId> input_gradients = {};
  bool accumulate_gradients = false;  ///< parameters' gradients add up from step to step
  /// What is computed of leaves alone keeps its memory from step to step; without roots only.
  bool constant_parameters = false;
  GradientPrecision gradient_precision = GradientPrecision::F32;
  int threads = 1;  ///< that run backward: some kernels need memory for each
  std::vector<Companion> companions = {};  ///< at most one for each node
  Encoding encoding = {};                  ///< none of its values is an output or a root
};

/// Where a tensor lies.
struct Place {
  enum class Kind : uint8_t { None, Arena, Leaf };
  Kind kind = Kind::None;
  int64_t offset = 0;  ///< Arena: bytes from its start
  NodeId leaf;         ///< Leaf: the Parameter, State or Constant whose memory it is
  bool operator==(const Place&) const = default;
};

/// What becomes of one node: whether it runs, and where its buffers lie.
struct NodePlan {
  bool needed = false;  ///< runs in forward
  bool active = false;  ///< runs in backward: a gradient flows through
  bool kept = false;    ///< an output or a root: its value stays readable after the step
  /// With constant_parameters: neither an input nor computed of one, at any distance.
  bool constant = false;
  Place value;
  Place gradient;
  Place saved;
  Place forward_scratch;
  Place backward_scratch;
  Place companion;
  /// The value is held as codes of this dtype.
  std::optional<DType> encoded = std::nullopt;
  /// Per operand that is held as codes: where its values are during forward and backward of
  /// this node, unless it takes the codes.
  std::vector<Place> forward_values;
  std::vector<Place> backward_values;
  /// Per operand that is held as codes: backward quantizes what gave them once more, since they
  /// are gone.
  std::vector<bool> made_again;
  int64_t record = 0;  ///< offset in the record memory
  /// A quantizer that leaves out gradients for the Gate before it, which has no backward then.
  bool gated = false;
  bool open = false;             ///< that Gate
  std::vector<bool> wanted;      ///< per operand: its gradient is computed
  std::vector<bool> accumulate;  ///< per operand: and added to what other nodes wrote
};

/// A buffer and the closed interval of time in which it is in use. Node i of n runs forward at
/// time i and backward at time 2n - 1 - i.
struct Lifetime {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct Plan {
  std::vector<NodePlan> nodes;
  std::vector<Lifetime> buffers;  ///< what the arena holds, for tools and tests
  int64_t arena_bytes = 0;
  int64_t record_bytes = 0;
};

/// The most bytes that are in use at one time: no arena can be smaller.
int64_t largest_live_set(std::span<const Lifetime> buffers);

/// Throws PlanError for ids outside of the graph, for roots with constant_parameters, for
/// `input_gradients` that are not inputs of a float dtype or lead to no root, and for roots
/// without a path to a parameter or one of these inputs; and where an output or a root is to be
/// held as codes.
Plan plan(const Graph& graph, const PlanOptions& options);
/// The same as tests of memory ask for it, see engine/plan_hooks.h.
Plan plan(const Graph& graph, const PlanOptions& options, const PlanHooks& hooks);

}  // namespace qtape
